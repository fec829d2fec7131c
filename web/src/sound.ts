// The sound of the form: its bytes, its playback, and recordings of the microphone as WAV.
import { computed, signal } from "@preact/signals";
import { bytesOf, contentsOf } from "./inputs";
import { answered, form, inspection, offline, subject } from "./state";

/** The sound of the inspection on the page, as base64; null if it is unknown, as in a saved page. */
export const sound = computed(() => (!offline && inspection.value && answered.value === subject.value ? contentsOf(form.text.value, "audio") : null));

/** Stops the playback; null if nothing is played. */
export const playing = signal<(() => void) | null>(null);

/** Plays a sound from a time in seconds. Throws if the browser cannot decode it. */
export async function playFrom(base64: string, seconds: number): Promise<void> {
  playing.value?.();
  const context = new AudioContext();
  const source = context.createBufferSource();
  const stop = () => {
    if (playing.value === stop) playing.value = null;
    if (context.state !== "closed") void context.close();
  };
  playing.value = stop;
  try {
    source.buffer = await context.decodeAudioData(bytesOf(base64).buffer);
  } catch {
    stop();
    throw new Error("This browser cannot play the sound.");
  }
  source.connect(context.destination);
  source.onended = stop;
  source.start(0, seconds);
}

/** Samples from −1 to 1 as a WAV file with one channel of 16 bits. */
export function wavOf(samples: Float32Array, rate: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const name = (at: number, text: string) => [...text].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
  name(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  name(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // integer samples
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  name(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, index) => view.setInt16(44 + 2 * index, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true));
  return new Uint8Array(view.buffer);
}

/** The mean of the channels of a sound. */
export function mixed(channels: Float32Array[]): Float32Array {
  return channels[0].map((_, index) => channels.reduce((sum, channel) => sum + channel[index], 0) / channels.length);
}

/** A recording in progress. */
export interface Recording {
  /** Returns the recording as a WAV file. */
  stop: () => Promise<Uint8Array>;
  /** Ends the recording without a result. */
  cancel: () => void;
}

const RATE = 16_000; // samples per second, of speech

// Models are trained on recordings; what browsers remove from a call would change the sound.
const PLAIN = { echoCancellation: false, noiseSuppression: false };

/** Opens the microphone; `close` releases it. Throws if the browser or the user refuses. */
export async function microphone(): Promise<{ stream: MediaStream; close: () => void }> {
  if (!navigator.mediaDevices?.getUserMedia) throw new Error("This browser has no microphone for this page. Open the page with https or from localhost.");
  const stream = await navigator.mediaDevices.getUserMedia({ audio: PLAIN }).catch((error: unknown) => {
    const name = error instanceof Error ? error.name : "";
    if (name === "NotAllowedError") throw new Error("The browser refused the microphone. Allow it in the settings of this page, or choose a file.");
    if (name === "NotFoundError") throw new Error("No microphone was found. Connect one, or choose a file.");
    throw error;
  });
  return { stream, close: () => stream.getTracks().forEach((track) => track.stop()) };
}

/** Records the microphone. `onLevel` receives the loudness, from 0 to 1. Throws if the browser or the user refuses. */
export async function record(onLevel: (level: number) => void): Promise<Recording> {
  const { stream, close } = await microphone();
  const [context, recorder, parts] = [new AudioContext(), new MediaRecorder(stream), [] as Blob[]];
  const meter = context.createAnalyser();
  context.createMediaStreamSource(stream).connect(meter);
  const samples = new Float32Array(meter.fftSize);
  const timer = setInterval(() => {
    meter.getFloatTimeDomainData(samples);
    onLevel(Math.min(1, 3 * Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length)));
  }, 60);
  const release = () => {
    clearInterval(timer);
    close();
    void context.close();
  };
  recorder.ondataavailable = ({ data }) => parts.push(data);
  recorder.start();
  return {
    cancel: () => {
      recorder.stop();
      release();
    },
    stop: async () => {
      const ended = new Promise((resolve) => (recorder.onstop = resolve));
      recorder.stop();
      await ended;
      release();
      const encoded = await new Blob(parts, { type: recorder.mimeType }).arrayBuffer();
      // Decoding resamples to the rate of the context.
      const decoded = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(encoded);
      const channels = Array.from({ length: decoded.numberOfChannels }, (_, channel) => decoded.getChannelData(channel));
      return wavOf(mixed(channels), RATE);
    },
  };
}
