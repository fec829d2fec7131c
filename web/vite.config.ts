import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    outDir: "../regard/inspection/page",
    emptyOutDir: true,
    modulePreload: false,
    target: "esnext",
    // One script and one sheet under fixed names: Python inlines both into the page that works offline.
    rolldownOptions: {
      output: { entryFileNames: "app.js", assetFileNames: "app[extname]", codeSplitting: false },
    },
  },
});
