// Search from a disk: a browser starts no worker from a file: address. This one runs the script of the worker in a
// hidden frame of the page. Pages that come from a server keep the worker of the browser.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = []; // messages that arrive before the script has loaded
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.scope = this.frame.contentWindow;
      this.scope.postMessage = (data) => this.receive(data); // the worker's answers
      const script = this.scope.document.createElement("script");
      script.src = new URL(address, document.baseURI);
      script.onload = () => this.begin();
      script.onerror = () => this.onerror?.(new ErrorEvent("error", { cancelable: true }));
      this.scope.document.body.append(script);
    }

    begin() {
      const waiting = this.waiting;
      this.waiting = null;
      waiting.forEach((data) => this.postMessage(data));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else setTimeout(() => this.scope.onmessage?.({ data }));
    }

    receive(data) {
      setTimeout(() => this.onmessage?.({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
