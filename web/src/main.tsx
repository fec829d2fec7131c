import { effect } from "@preact/signals";
import { render } from "preact";
import { followAddress, start } from "./actions";
import { App } from "./components/App";
import { offline, theme } from "./state";
import { followForm } from "./inspecting";
import "uplot/dist/uPlot.min.css";
import "./style.css";

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
render(<App />, document.getElementById("app")!);
followAddress();
followForm();
if (!offline) void start();
