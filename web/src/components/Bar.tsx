/** A bar for a value between 0 and 1. If `signed`, a value between −1 and 1 that starts at the middle. */
export function Bar({ share, signed = false }: { share: number; signed?: boolean }) {
  const size = Math.min(1, Math.abs(share)) * (signed ? 50 : 100);
  const left = !signed ? 0 : share < 0 ? 50 - size : 50;
  return (
    <span class={`bar${signed ? " signed" : ""}${share < 0 ? " below" : ""}`} aria-hidden="true">
      <span style={{ left: `${left}%`, width: `${size}%` }} />
    </span>
  );
}
