// The help of each section: its content, how to read it, and its limits.
export interface Help {
  drawn: string;
  read: string;
  cannot: string;
}

const WHERE: Help = {
  drawn: "Each line joins a query with a key that a head attends to; the thicker, the larger its weight.",
  read:
    "Point at a piece for its weights; click or Enter locks it, Esc unlocks it. Several heads can be drawn over " +
    "each other, each in its own color and dash. The weights of a row sum to 1; two sliders hide the small ones.",
  cannot:
    "Attention does not explain an answer: other heads, later layers and residual connections also carry information. " +
    "“Why” and the measure “off” change the input or the model and measure the effect.",
};

export const HELP: Record<string, Help> = {
  aligned: WHERE,
  links: WHERE,
  heads: {
    drawn: "Every head of every layer: a row is a query, a column is a key. All heads of a type have one color scale.",
    read:
      "A diagonal follows the order of the input. A vertical stripe rests on one position, often the end symbol. " +
      "Uniform gray attends to all positions. Choose a head to enlarge it. “Rollout” multiplies the layers.",
    cannot: "A head with a clear pattern can be unimportant, and one without a pattern important. Other inputs can have other patterns.",
  },
  heatmap: {
    drawn: "The weights of the chosen head, one cell for each query (row) and key (column). Hatched cells are hidden by the mask.",
    read:
      "Point at a cell, or move with the arrow keys, for its exact weight; click or Enter shows how it is computed. In " +
      "encoder-decoder attention, a row predicts the piece in its label.",
    cannot: "Colors are scaled to the largest weight of this head: compare two heat maps by their numbers.",
  },
  cell: {
    drawn: "One weight, computed from its numbers: query times key, scale, bias, softmax over the row, and the weighted values.",
    read: "From top to bottom, in the order of the computation. The last column of the softmax table is the weight that the model used.",
    cannot: "Components of the vectors have no names: their meaning is unknown.",
  },
  measures: {
    drawn: "Every head in numbers, for this input. A column heading sorts by its column.",
    read: "“off” is the effect of switching off the head: −2 nats means that the answer becomes e² ≈ 7.4 times less probable.",
    cannot: "The other measures describe the pattern of a head for this input, not its role in general.",
  },
  lens: {
    drawn: "The answer that the output layer reads from the state after each layer (logit lens).",
    read: "The last row is the answer of the model. The first row with the same label is the layer at which the answer is settled.",
    cannot: "The output layer was trained for the last state only. Early rows can be meaningless.",
  },
  flow: {
    drawn: "The blocks of the network from input to output, with the shape of each output for this input.",
    read: "Choose a block with attention to open its heat map.",
    cannot: "The drawing shows the main blocks; their inner layers are in the reference of the model.",
  },
  steps: {
    drawn: "The output piece by piece: its probability, the entropy of the distribution, and its rank.",
    read: "A rank above 1 is not the most probable piece: beam search preferred it for the pieces after it, or it was forced.",
    cannot: "Probabilities are the model's own: a confident model can be wrong.",
  },
  beam: {
    drawn: "The hypotheses of the search, one piece longer with each step to the right. The path of the output is thick.",
    read:
      "Framed: ended. Struck through, dashed: dropped. The number below a piece is the sum of log p up to it. The score " +
      "of an ended hypothesis includes the length penalty; ended hypotheses are compared by score.",
    cannot: "Outputs outside the beam: a better one may exist.",
  },
  compare: {
    drawn: "The same sentence by a second model or checkpoint. The first piece that differs is marked.",
    read: "Both sides show the chosen head, if both have it; otherwise each shows its default.",
    cannot: "Heads of different trainings have no common order: head 3 here and head 3 there can have different roles.",
  },
  answer: {
    drawn: "The input and the answer of the model: labels with probabilities, a tag below each word, or words in the gaps.",
    read: "The most probable answer is first. Choose a word, a gap, a node or a token for its alternatives. A shaded token is less probable.",
    cannot: "Probabilities are the model's own. Held-out data measure how often they are right: see “Training”.",
  },
  why: {
    drawn: "Influence of a piece = log p(answer) − log p(answer | piece hidden), in nats; or the attention to each piece.",
    read: "A shaded piece supports the answer, a striped one opposes it. 0.7 nats halve or double the probability.",
    cannot: "Pieces are hidden one at a time: of two equivalent pieces neither has influence, because the other remains.",
  },
  training: {
    drawn: "The parts of the model, and one curve for each metric of the training. A dashed line is the baseline.",
    read: "If the validation loss rises while the training loss falls, the model overfits. The best checkpoint is marked.",
    cannot: "The variation between trainings: this is one run with one seed.",
  },
  export: {
    drawn: "This page as a link, an HTML file, drawings, JSON, or a command.",
    read: "The link and the HTML file open with the chosen head, piece and cell. The HTML file needs no server and no network.",
    cannot: "Parts that were not loaded are not in the file: open “Side by side” or load the checkpoints first.",
  },
};

export const READ_LATE =
  "The links of a piece are those of the row after its own, in which the decoder has just read the piece, not of the row " +
  "that predicts it: in this model, that row agrees better with word alignments. The heat map shows each row in its own position.";
