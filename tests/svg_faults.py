"""Faults of SVG pictures, measured in a browser: text outside, touching text, equal series, axes without a name."""

from __future__ import annotations

from typing import Any

# Corners of texts are oriented, because the bounding boxes of rotated labels overlap although the labels do not.
MEASURE = """
() => {
  const svg = document.querySelector("svg"), faults = [], GAP = 1, INSET = 3;
  const frame = svg.getBoundingClientRect();
  const corners = (element) => {
    const box = element.getBBox(), matrix = element.getScreenCTM();
    const at = (x, y) => { const p = new DOMPoint(x, y).matrixTransform(matrix); return [p.x, p.y]; };
    // A line of text is lower than its box: the ascent and descent of the font are not all ink.
    const top = box.y + 0.15 * box.height, bottom = box.y + 0.9 * box.height;
    return [at(box.x, top), at(box.x + box.width, top), at(box.x + box.width, bottom), at(box.x, bottom)];
  };
  const texts = [...svg.querySelectorAll("text")]
    .filter((text) => text.textContent.trim())
    .map((element) => ({ name: element.textContent.trim(), points: corners(element) }));
  const outside = ([x, y]) =>
    x < frame.left - 0.5 || x > frame.right + 0.5 || y < frame.top - 0.5 || y > frame.bottom + 0.5;
  for (const { name, points } of texts)
    if (points.some(outside))
      faults.push(`outside the picture: ${name}`);
  const separated = (one, other) => {  // by an axis of one of both boxes
    for (const box of [one, other])
      for (const side of [0, 1]) {
        const dx = box[side + 1][0] - box[side][0], dy = box[side + 1][1] - box[side][1], length = Math.hypot(dx, dy);
        const project = (points) => points.map(([x, y]) => (x * dx + y * dy) / length);
        const [a, b] = [project(one), project(other)];
        if (Math.min(...a) - Math.max(...b) >= GAP || Math.min(...b) - Math.max(...a) >= GAP) return true;
      }
    return false;
  };
  texts.forEach((one, index) => {
    for (const other of texts.slice(index + 1))
      if (!separated(one.points, other.points)) faults.push(`touching: ${one.name} | ${other.name}`);
  });
  const boxes = [...svg.querySelectorAll("rect")].map((rect) => rect.getBoundingClientRect());
  for (const { name, points } of texts) {
    const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const x = (left + right) / 2, y = (top + bottom) / 2;
    const around = boxes.filter((box) => box.left < x && x < box.right && box.top < y && y < box.bottom);
    const own = around.sort((a, b) => a.width * a.height - b.width * b.height)[0];
    const wide = own && (left < own.left + INSET || right > own.right - INSET);
    if (wide || (own && (top < own.top + GAP || bottom > own.bottom - GAP)))
      faults.push(`leaves its box: ${name}`);
  }
  for (const legend of svg.querySelectorAll("g[id^=legend_]")) {
    const seen = new Map();
    for (const line of legend.querySelectorAll(":scope > g[id^=line2d_] > path")) {
      const style = getComputedStyle(line), look = `${style.stroke} ${style.strokeDasharray}`;
      if (seen.has(look)) faults.push(`two series of the look ${look}`);
      seen.set(look, true);
    }
  }
  for (const axis of svg.querySelectorAll("g[id^='matplotlib.axis_']")) {
    const ticks = [...axis.querySelectorAll("g[id*=tick_] text")].filter((text) => text.textContent.trim());
    const title = axis.querySelector(":scope > g[id^=text_] text");
    const values = ticks.map((text) => text.textContent).join(" ");
    if (ticks.length && !title) faults.push(`an axis without a name: ${values}`);
  }
  return faults;
}
"""


def svg_faults(browser: Any, svg: str) -> list[str]:
    """Return the faults of an SVG file, each as a line."""
    page = browser.new_page(viewport={"width": 2400, "height": 1800})
    try:
        page.set_content(f"<body style='margin: 20px'>{svg[svg.index('<svg') :]}</body>")
        faults: list[str] = page.evaluate(MEASURE)
        return faults
    finally:
        page.close()
