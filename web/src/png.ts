// Pixels as a PNG in a data URL, without a canvas: drawings and saved files use the same pictures.

function checksum(bytes: Uint8Array): number {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ~crc >>> 0;
}

function joined(parts: ArrayLike<number>[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

const word = (value: number) => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];

function chunk(name: string, data: ArrayLike<number>): Uint8Array {
  const body = joined([[...name].map((letter) => letter.charCodeAt(0)), data]);
  return joined([word(data.length), body, word(checksum(body))]);
}

const BLOCK = 65535; // bytes of a block without compression

/** Bytes as a zlib stream of blocks without compression. */
function stored(bytes: Uint8Array): Uint8Array {
  const parts: ArrayLike<number>[] = [[0x78, 0x01]];
  for (let from = 0; from < bytes.length; from += BLOCK) {
    const block = bytes.subarray(from, from + BLOCK);
    const [low, high] = [block.length & 255, block.length >>> 8];
    parts.push([from + BLOCK >= bytes.length ? 1 : 0, low, high, low ^ 255, high ^ 255], block);
  }
  let [one, two] = [1, 0]; // Adler-32
  for (const byte of bytes) {
    one = (one + byte) % 65521;
    two = (two + one) % 65521;
  }
  return joined([...parts, word(((two << 16) | one) >>> 0)]);
}

/** Pixels as red, green, blue and opacity, from 0 to 255, row by row. */
export function pngUrl(width: number, height: number, pixels: Uint8Array): string {
  const rows = new Uint8Array(height * (4 * width + 1)); // each row starts with its filter, 0
  for (let y = 0; y < height; y++) rows.set(pixels.subarray(4 * width * y, 4 * width * (y + 1)), y * (4 * width + 1) + 1);
  const header = chunk("IHDR", [...word(width), ...word(height), 8, 6, 0, 0, 0]);
  const file = joined([[137, 80, 78, 71, 13, 10, 26, 10], header, chunk("IDAT", stored(rows)), chunk("IEND", [])]);
  let binary = "";
  for (let from = 0; from < file.length; from += 8192) binary += String.fromCharCode(...file.subarray(from, from + 8192));
  return `data:image/png;base64,${btoa(binary)}`;
}
