export type Color = [number, number, number];

// Both maps change evenly in lightness, from the background color. They are readable without color vision.
const LIGHT: Color[] = [[252, 252, 248], [214, 235, 196], [134, 204, 178], [60, 160, 168], [42, 108, 152], [50, 56, 118], [38, 14, 66]];
const DARK: Color[] = [[24, 27, 34], [58, 40, 104], [54, 88, 138], [40, 138, 142], [70, 184, 116], [170, 218, 60], [252, 234, 100]];

/** The color of a value between 0 and 1. */
export function colorOf(share: number, dark: boolean): Color {
  const stops = dark ? DARK : LIGHT;
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  const blend = (channel: number) =>
    Math.round(stops[below][channel] + (place - below) * (stops[below + 1][channel] - stops[below][channel]));
  return [blend(0), blend(1), blend(2)];
}

export function cssColor(share: number, dark: boolean): string {
  return `rgb(${colorOf(share, dark).join(",")})`;
}

/** Colors of heads that are drawn at once, for light and dark pages. The first color is for the chosen head. */
const LAYERS: [string, string][] = [
  ["#0f6a8b", "#6fc4e2"], ["#c2410c", "#ff9d5c"], ["#6d28d9", "#b79bff"], ["#3f7d20", "#8fd46a"],
  ["#a8125f", "#ff86c2"], ["#7a5c00", "#e3c34a"], ["#475569", "#b5c0d0"], ["#00786c", "#4fd6c4"],
];
// Dashes distinguish heads with similar colors.
const DASHES = ["", "7 3", "2 3", "10 3 2 3"];

export function layerColor(layer: number, dark: boolean): string {
  return LAYERS[layer % LAYERS.length][dark ? 1 : 0];
}

export function layerDash(layer: number): string {
  return DASHES[layer % DASHES.length];
}
