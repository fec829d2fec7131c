// The help of each section: its content, how to read it, and its limits.
export interface Help {
  content: string;
  reading: string;
  limits: string;
}

const WHERE: Help = {
  content: "Each line connects a query to a key that the head attends to. A thicker line is a larger weight.",
  reading:
    "Point at a piece to see its weights. A click or Enter locks it, and Esc unlocks it. You can draw several heads at " +
    "once, each with its own color and dash. The weights of a row sum to 1. Two sliders hide small weights.",
  limits:
    "Attention does not explain an answer: other heads, later layers and residual connections also carry information. " +
    "“Why” and the measure “off” change the input or the model and measure the effect.",
};

export const HELP: Record<string, Help> = {
  aligned: WHERE,
  links: WHERE,
  streaming: {
    content: "The translation of a text that is still arriving. Black words are committed; gray words may still change.",
    reading:
      "A word is read once a space follows it. The policy decides which words are certain. Enter ends the sentence. The " +
      "bars show the number of source words that were read when each word was committed.",
    limits:
      "Committed words are never taken back, even if a later source word shows that they are wrong. A model that was " +
      "trained on whole sentences only makes more of such errors; see train.prefixes.",
  },
  listening: {
    content: "The words of the microphone while you speak. Black words are committed; gray words may still change.",
    reading:
      "After each step of sound the model forms a hypothesis. Words in which two hypotheses agree are committed. A silence " +
      "closes a segment. The bars show the seconds from the end of each word to its commit.",
    limits:
      "Committed words are never taken back. Seconds of words come from CTC; a model without it has no bars. The bars do " +
      "not contain the time of computation.",
  },
  heads: {
    content: "Every head of every layer. A row is a query, a column is a key. All heads of a type share one color scale.",
    reading:
      "A diagonal follows the order of the input. A vertical stripe means that all queries attend to one position, often " +
      "the end symbol. A uniform color means equal attention to all positions. Choose a head to enlarge it. “Rollout” " +
      "multiplies the attention of all layers.",
    limits: "A head with a clear pattern can be unimportant, and a head without a pattern can be important. Patterns depend on the input.",
  },
  heatmap: {
    content: "The weights of the chosen head, one cell for each query (row) and key (column). Hatched cells are hidden by the mask.",
    reading:
      "Point at a cell, or use the arrow keys, to see its exact weight. A click or Enter shows how the weight is computed. " +
      "In encoder-decoder attention, the label of a row is the piece that it predicts.",
    limits: "Colors are scaled to the largest weight of this head. To compare two heat maps, compare their numbers.",
  },
  cell: {
    content: "The computation of one weight: query times key, scale, bias, softmax over the row, and the weighted values.",
    reading: "Read from top to bottom, in the order of the computation. The column “Recorded” has the weights that the model used.",
    limits: "The components of the vectors have no names, and their meaning is unknown.",
  },
  measures: {
    content: "The measures of every head for this input. Click a column heading to sort by that column.",
    reading: "“off” is the effect of switching off the head: −2 nats means that the answer becomes e² ≈ 7.4 times less probable.",
    limits: "The other measures describe the pattern of a head for this input, not its role in general.",
  },
  lens: {
    content: "The prediction of the output layer from the state after each layer (logit lens).",
    reading: "The last row is the answer of the model. Find the layer from which the label no longer changes: the answer is settled there.",
    limits: "The output layer was trained for the last state only. Early rows can be meaningless.",
  },
  flow: {
    content: "The blocks of the network from input to output, with the shape of each output for this input.",
    reading: "Choose a block with attention to open its heat map.",
    limits: "Only the main blocks are drawn. The reference of the model describes their inner layers.",
  },
  steps: {
    content: "The output, piece by piece: the probability of each piece, the entropy of the distribution, and the rank of the piece.",
    reading: "A rank above 1 means that another piece was more probable here. Beam search preferred this one for the pieces after it, or it was forced.",
    limits: "The probabilities are estimates of the model. A confident model can be wrong.",
  },
  beam: {
    content: "The hypotheses of the beam search. Each step to the right adds one piece. The path of the output is thick.",
    reading:
      "A framed hypothesis has ended. A dashed, struck-through one was pruned. The first number below a piece is the sum of " +
      "log p up to it. The second number is the score of an ended hypothesis, with the length penalty; the highest score wins.",
    limits: "The search does not try all outputs. A better output may exist outside the beam.",
  },
  compare: {
    content: "The same input in a second model or checkpoint. The first difference of the outputs is marked.",
    reading: "Both sides show the chosen head if both have it; otherwise each shows its default head.",
    limits: "Heads of different trainings have no common order: head 3 here and head 3 there can have different roles.",
  },
  answer: {
    content: "The input and the answer of the model: labels with probabilities, a number, a tag below each word, or words in the gaps.",
    reading:
      "The most probable answer is first. Choose a word, a gap, a node or a token to see its alternatives. A token with " +
      "a stronger shade is less probable.",
    limits: "The probabilities are estimates of the model. “Training” shows how good the model is on validation data.",
  },
  why: {
    content: "Influence of a piece = log p(answer) − log p(answer | piece hidden), in nats (of a number: its change); or the attention to each piece.",
    reading:
      "A shaded piece supports the answer, a striped piece opposes it. If a piece has influence 0.7 nats, hiding it halves the " +
      "probability; with −0.7 nats, hiding it doubles the probability.",
    limits: "Pieces are hidden one at a time. If two pieces say the same, both can have influence 0, because the other one remains.",
  },
  training: {
    content: "The parts of the model, and one plot for each training metric. A dashed line is the baseline.",
    reading: "If the validation loss rises while the training loss falls, the model overfits. The best checkpoint is marked.",
    limits: "This is one run with one seed. It does not show how much the results of different runs vary.",
  },
  export: {
    content: "This page as a link, an HTML file, drawings, JSON, or a command.",
    reading: "The link and the HTML file open with the chosen head, piece and cell. The HTML file needs no server and no network.",
    limits: "The HTML file contains only the parts that are loaded. Load “Side by side” or the checkpoints before you save it.",
  },
};

export const READ_LATE =
  "The links of a piece are taken from the next row of the attention, in which the decoder reads the piece as its input. " +
  "The piece itself is predicted one row earlier. In this model, the next row agrees better with word alignments. " +
  "The heat map does not shift the rows.";
