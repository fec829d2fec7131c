import { useEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";

/** The inner width of an element in pixels. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** Whether an element has been scrolled near the visible part of the page. */
export function useSeen(element: RefObject<HTMLElement | null>): boolean {
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => entries.some((entry) => entry.isIntersecting) && setSeen(true),
      { rootMargin: "200px" },
    );
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return seen;
}

/** Arrow keys move the focus between the buttons of a group with one tab stop. */
export function moveFocus(event: KeyboardEvent): void {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!by) return;
  const buttons = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>("button")];
  const next = buttons[buttons.indexOf(document.activeElement as HTMLElement) + by];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
