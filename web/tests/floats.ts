import type { Floats } from "../src/document";

export function floats(shape: number[], values: number[]): Floats {
  return { shape, data: btoa(String.fromCharCode(...new Uint8Array(Float32Array.from(values).buffer))) };
}
