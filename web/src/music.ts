// Music as frames of MIDI pitches: notes, playback and MIDI file.
import type { MidiEvent } from "midi-file";
import writeMidi from "midi-file/lib/midi-writer.js";
import type { Roll } from "./document";

export interface Note {
  pitch: number;
  /** In frames. */
  start: number;
  length: number;
  given: boolean;
}

const TICKS = 480; // per quarter note
const BEAT = 0.5; // seconds per quarter note
const NAMES = ["C", "C♯", "D", "D♯", "E", "F", "F♯", "G", "G♯", "A", "A♯", "B"];

export function pitchName(pitch: number): string {
  return `${NAMES[pitch % 12]}${Math.floor(pitch / 12) - 1}`;
}

/** The notes of a roll. A pitch in consecutive frames is one note. */
export function notesOf({ frames, given }: Roll): Note[] {
  const notes: Note[] = [];
  const sounding = new Map<number, Note>();
  frames.forEach((frame, time) => {
    for (const [pitch] of [...sounding]) if (!frame.includes(pitch)) sounding.delete(pitch);
    for (const pitch of frame) {
      const isGiven = given === undefined || (given[time] ?? []).includes(pitch);
      const previous = sounding.get(pitch);
      if (previous && previous.given === isGiven) previous.length++;
      else {
        const note = { pitch, start: time, length: 1, given: isGiven };
        sounding.set(pitch, note);
        notes.push(note);
      }
    }
  });
  return notes;
}

/** A MIDI file with one track. */
export function midiOf(roll: Roll): Uint8Array {
  const ticks = TICKS / roll.steps;
  const times = notesOf(roll).flatMap(({ pitch, start, length }) => [
    { at: start * ticks, event: { type: "noteOn" as const, channel: 0, noteNumber: pitch, velocity: 80 } },
    { at: (start + length) * ticks, event: { type: "noteOff" as const, channel: 0, noteNumber: pitch, velocity: 0 } },
  ]);
  // At equal times, note ends come before note starts.
  times.sort((one, other) => one.at - other.at || (one.event.type === "noteOff" ? -1 : 1) - (other.event.type === "noteOff" ? -1 : 1));
  let now = 0;
  const events: MidiEvent[] = times.map(({ at, event }) => {
    const deltaTime = Math.round(at) - now;
    now = Math.round(at);
    return { deltaTime, ...event };
  });
  const tempo: MidiEvent = { deltaTime: 0, type: "setTempo", microsecondsPerBeat: BEAT * 1e6, meta: true };
  const end: MidiEvent = { deltaTime: 0, type: "endOfTrack", meta: true };
  return new Uint8Array(writeMidi({ header: { format: 0, numTracks: 1, ticksPerBeat: TICKS }, tracks: [[tempo, ...events, end]] }));
}

/** Plays a roll. Returns a function that stops it. */
export function play(roll: Roll, ended: () => void): () => void {
  const context = new AudioContext();
  const seconds = BEAT / roll.steps;
  const begin = context.currentTime + 0.05;
  for (const { pitch, start, length } of notesOf(roll)) {
    const [sound, volume] = [context.createOscillator(), context.createGain()];
    const [from, to] = [begin + start * seconds, begin + (start + length) * seconds];
    sound.type = "triangle";
    sound.frequency.value = 440 * 2 ** ((pitch - 69) / 12);
    volume.gain.setValueAtTime(0, from);
    volume.gain.linearRampToValueAtTime(0.12, from + 0.02);
    volume.gain.setValueAtTime(0.12, Math.max(from + 0.02, to - 0.05));
    volume.gain.linearRampToValueAtTime(0, to);
    sound.connect(volume).connect(context.destination);
    sound.start(from);
    sound.stop(to);
  }
  const timer = setTimeout(ended, 1000 * (0.05 + roll.frames.length * seconds));
  return () => {
    clearTimeout(timer);
    void context.close();
    ended();
  };
}
