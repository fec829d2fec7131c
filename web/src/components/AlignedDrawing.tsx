import { useSignal } from "@preact/signals";
import { PIECE_HEIGHT, type AlignedLayout, type Placed } from "../aligned";
import { layerColor, layerDash } from "../color";
import { fixed } from "../format";
import type { Matrix } from "../matrix";
import { dark } from "../state";
import type { Pointed } from "../view";

interface Properties {
  layout: AlignedLayout;
  /** Weights of the chosen head, written next to the pieces. */
  matrix: Matrix;
  sides: Record<Pointed["side"], string>;
  active: Pointed | null;
  locked: Pointed | null;
  onHover: (at: Pointed | null) => void;
  onLock: (at: Pointed) => void;
}

export function AlignedDrawing({ layout, matrix, sides, active, locked, onHover, onLock }: Properties) {
  const touches = (arc: { query: number; key: number }) => active !== null && arc[active.side] === active.index;
  return (
    <svg
      class={active ? "aligned pointed" : "aligned"}
      data-testid="aligned"
      role="group"
      aria-label="Aligned text"
      width={layout.width}
      height={layout.height}
      onPointerLeave={() => onHover(null)}
    >
      {layout.arcs.map((arc) => (
        <path
          key={`${arc.layer ?? 0} ${arc.query} ${arc.key}`}
          class={touches(arc) ? "arc on" : "arc"}
          d={arc.path}
          stroke={layerColor(arc.layer ?? 0, dark.value)}
          stroke-dasharray={layerDash(arc.layer ?? 0) || "none"}
          stroke-width={0.5 + 4 * arc.weight}
          opacity={active && !touches(arc) ? 0.06 : 0.2 + 0.7 * arc.weight}
        />
      ))}
      {(["key", "query"] as const).map((side) => (
        <PieceLine
          key={side}
          side={side}
          name={sides[side]}
          pieces={side === "key" ? layout.keys : layout.queries}
          locked={locked}
          active={active}
          weightOf={(index) => {
            if (!active || active.side === side) return null;
            const arc = layout.arcs.find((link) => !link.layer && touches(link) && link[side] === index);
            const [query, key] = side === "key" ? [active.index, index] : [index, active.index];
            return { shade: matrix.values[query * matrix.columns + key], linked: arc !== undefined };
          }}
          onHover={onHover}
          onLock={onLock}
        />
      ))}
    </svg>
  );
}

interface LineProperties extends Pick<Properties, "active" | "locked" | "onHover" | "onLock"> {
  side: Pointed["side"];
  name: string;
  pieces: Placed[];
  weightOf: (index: number) => { shade: number; linked: boolean } | null;
}

/** A line of pieces with one tab stop. Arrow keys move between the pieces. */
function PieceLine({ side, name, pieces, active, locked, weightOf, onHover, onLock }: LineProperties) {
  const focused = useSignal(0);
  const move = (event: KeyboardEvent, index: number) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const next = event.key === "Home" ? 0 : event.key === "End" ? pieces.length - 1 : by ? index + by : null;
    if (event.key === "Enter" || event.key === " ") onLock({ side, index });
    else if (next === null || !pieces[next]) return;
    else {
      focused.value = next;
      const line = (event.currentTarget as Element).parentElement!;
      (line.children[next] as SVGElement).focus();
    }
    event.preventDefault();
  };
  return (
    <g role="group" aria-label={name}>
      {pieces.map((piece, index) => {
        const weight = weightOf(index);
        const isLocked = locked?.side === side && locked.index === index;
        const isActive = active?.side === side && active.index === index;
        return (
          <g
            key={index}
            class={`piece${isActive ? " on" : ""}${isLocked ? " locked" : ""}`}
            data-testid={`aligned-${side}-${index}`}
            role="button"
            aria-label={`${piece.label}, ${name} ${index + 1}`}
            aria-pressed={isLocked}
            tabIndex={index === Math.min(focused.value, pieces.length - 1) ? 0 : -1}
            onPointerEnter={() => onHover({ side, index })}
            onFocus={() => onHover({ side, index })}
            onBlur={() => onHover(null)}
            onClick={() => onLock({ side, index })}
            onKeyDown={(event) => move(event, index)}
          >
            <rect x={piece.x} y={piece.y} width={piece.width} height={PIECE_HEIGHT} rx="4" />
            {weight && (
              <rect
                class="shade"
                x={piece.x}
                y={piece.y}
                width={piece.width}
                height={PIECE_HEIGHT}
                rx="4"
                opacity={0.5 * weight.shade}
              />
            )}
            <text x={piece.x + piece.width / 2} y={piece.y + 16.5}>
              {piece.label}
            </text>
            {weight?.linked && (
              <text class={`note ${piece.note.anchor}`} x={piece.note.x} y={piece.note.y}>
                {fixed(weight.shade)}
              </text>
            )}
          </g>
        );
      })}
    </g>
  );
}
