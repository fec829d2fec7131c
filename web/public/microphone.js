// Sends the samples of the microphone to the page in pieces of a tenth of a second. It runs in the thread of the sound.
class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Float32Array(Math.round(sampleRate / 10));
    this.length = 0;
  }

  process([channels]) {
    const count = channels?.[0]?.length ?? 0;
    for (let index = 0; index < count; index++) {
      this.piece[this.length++] = channels.reduce((sum, channel) => sum + channel[index], 0) / channels.length;
      if (this.length === this.piece.length) {
        this.port.postMessage(this.piece.slice());
        this.length = 0;
      }
    }
    return true;
  }
}

registerProcessor("microphone", Microphone);
