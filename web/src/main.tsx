import { effect } from "@preact/signals";
import { render } from "preact";
import { followAddress, start } from "./actions";
import { App } from "./components/App";
import { offline, savedView, theme } from "./state";
import { applyView } from "./view";
import { followForm, followSampling, followTyping, followView } from "./inspecting";
import "uplot/dist/uPlot.min.css";
import "./style.css";

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
render(<App />, document.getElementById("app")!);
followAddress();
followForm();
if (offline) applyView(savedView);
else {
  followView();
  followTyping();
  followSampling();
  void start();
}
