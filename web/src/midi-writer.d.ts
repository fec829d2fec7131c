// The part of midi-file that writes: its main file has a parser, too, which the page does not need.
declare module "midi-file/lib/midi-writer.js" {
  import type { writeMidi } from "midi-file";
  const write: typeof writeMidi;
  export default write;
}
