// The microphone is sent to the WebSocket /v1/listen, which answers with words as they are committed.
import { signal } from "@preact/signals";
import { socketAddress, storedKey } from "./api";
import { heardAfter, NOTHING, pcmOf, type Heard, type HeardStep } from "./hearing";
import { microphone } from "./sound";
import { details } from "./state";

const RATE = 16_000; // samples per second, of speech

export const heard = signal<Heard>(NOTHING);
export const problem = signal("");
export const lag = signal(1);
export const step = signal(0.5);
/** Ends the sound; null if nothing is heard. */
export const listening = signal<(() => void) | null>(null);

/** Opens the microphone and the connection. `problem` receives the reason if one of them fails. */
export async function listen(): Promise<void> {
  problem.value = "";
  heard.value = NOTHING;
  try {
    const input = await microphone();
    try {
      await stream(input);
    } catch (error) {
      input.close();
      throw error;
    }
  } catch (error) {
    problem.value = error instanceof Error ? error.message : String(error);
  }
}

async function stream(input: MediaInput): Promise<void> {
  const context = await opened(input.stream);
  const socket = new WebSocket(socketAddress("./v1/listen"));
  const send = (message: ArrayBuffer | string) => socket.readyState === WebSocket.OPEN && socket.send(message);
  const node = new AudioWorkletNode(context, "microphone");
  const release = () => {
    node.port.onmessage = null;
    input.close();
    void context.close();
  };
  const end = () => {
    release();
    if (listening.value === end) listening.value = null;
    send('{"final": true}');
  };
  socket.onopen = () => {
    send(JSON.stringify({ rate: context.sampleRate, model: details.value?.name, lag: lag.value, step: step.value, key: storedKey() ?? undefined }));
    node.port.onmessage = ({ data }: MessageEvent<Float32Array>) => void send(pcmOf(data));
    context.createMediaStreamSource(input.stream).connect(node);
  };
  socket.onmessage = ({ data }: MessageEvent<string>) => {
    const message = JSON.parse(data) as HeardStep & { error?: string };
    if (message.error !== undefined) problem.value = message.error;
    else heard.value = heardAfter(heard.value, message);
  };
  socket.onerror = () => (problem.value = "The server does not accept a stream of sound. Check that it is running.");
  socket.onclose = () => {
    if (listening.value !== end) return;
    release();
    listening.value = null;
    problem.value ||= "The server closed the connection.";
  };
  listening.value = end;
}

/** A context of the rate of speech with the code of the worklet; some browsers cannot change the rate of a microphone. */
async function opened(source: MediaStream): Promise<AudioContext> {
  const open = async (options?: AudioContextOptions) => {
    const context = new AudioContext(options);
    try {
      context.createMediaStreamSource(source);
      await context.audioWorklet.addModule("./microphone.js");
      return context;
    } catch (error) {
      void context.close();
      throw error;
    }
  };
  return open({ sampleRate: RATE }).catch(() => open());
}

/** What `microphone` returns. */
type MediaInput = Awaited<ReturnType<typeof microphone>>;
