// What each panel tells: what is drawn, how to read it, and what it cannot say.
export interface Help {
  drawn: string;
  read: string;
  cannot: string;
}

export const HELP: Record<string, Help> = {
  aligned: {
    drawn: "Each line joins an output piece with an input piece that a head looked at; the thicker, the larger its weight.",
    read:
      "Point at a piece to see its weights alone; click or Enter holds it, Esc lets it go. Several heads can be drawn over " +
      "each other, each in its own color and dash. The weights of a row sum to 1; the smaller ones are left out by the two sliders.",
    cannot:
      "Where a model looked is not why it decided: other heads, the layers above and the connections past the attention " +
      "carry information too. Only the measure “off” changes the model and sees what follows.",
  },
  heads: {
    drawn: "Every head of every layer in small: a row is a position that looks (query), a column one that is looked at (key).",
    read:
      "A diagonal follows the order of the words, a vertical stripe rests on one place, often the end symbol, and gray all " +
      "over looks everywhere. Choose a head to see it large. “Rollout” multiplies the layers through.",
    cannot: "A head with a clear pattern need not matter, and one without may. Patterns of one sentence need not hold for others.",
  },
  heatmap: {
    drawn: "The weights of the chosen head, one cell for each query (row) and key (column); the stronger the color, the larger.",
    read:
      "Point at a cell, or move with the arrow keys, for its exact weight; click or Enter works it out. In encoder-decoder " +
      "attention a row predicts the piece it is named after; no row is read late here.",
    cannot: "Colors are scaled to the largest weight, so two heat maps compare by their numbers alone.",
  },
  cell: {
    drawn: "One weight from the numbers it comes from: query times key, scale, bias, softmax over the row, and the weighted values.",
    read: "From top to bottom, as the model computes it. The last column of the softmax compares with what the model recorded.",
    cannot: "Which feature of the language a component stands for: they have no names.",
  },
  measures: {
    drawn: "Every head in numbers, of this sentence; a column's heading sorts by it.",
    read: "“off” is measured by switching the head off: −2 nats means that the output became e² ≈ 7.4 times less probable without it.",
    cannot: "The others describe where a head looks. They are of one sentence, and do not say what a head does in general.",
  },
  steps: {
    drawn: "The output piece by piece: its probability, the uncertainty before it was chosen (entropy), and its rank.",
    read: "A rank above 1 was not the likeliest at that step: beam search preferred it for what follows, or it was forced.",
    cannot: "Probabilities are the model's own: a confident model may be wrong.",
  },
  beam: {
    drawn: "The hypotheses of the search, a piece further with each step to the right; the output's path is filled and thick.",
    read:
      "Framed: ended. Struck through, dashed: dropped. The number below a piece is the sum of log p so far; where a hypothesis " +
      "ended, its score with the length penalty follows, by which those that ended compare.",
    cannot: "What never came among the kept ones: a better output may lie outside the beam.",
  },
  compare: {
    drawn: "The same sentence by a second model or checkpoint, beside the one above, with the first piece that differs marked.",
    read: "The head that is chosen is shown of both where both have it, or else each one's own default.",
    cannot: "Heads of different trainings have no order in common: head 3 here and head 3 there need not do the same.",
  },
  answer: {
    drawn: "The input, and what the model answers: labels with their probabilities, a tag below each word, or words in the gaps.",
    read: "The most probable answer is first. Choose a word or a gap to see what else the model considered there.",
    cannot: "Probabilities are the model's own. How often such an answer is right, only held-out data can tell: see “Training”.",
  },
  why: {
    drawn: "The influence of each piece: log p of the answer, less log p of the same answer when the piece is hidden. In nats.",
    read: "A shaded piece counts for the answer, a striped one against it. 0.7 nats halve the probability, or double it.",
    cannot: "Pieces are hidden one at a time: of two that say the same, neither counts, since the other remains.",
  },
  text: {
    drawn: "The text as the model reads it, piece by piece; the stronger the color of a piece, the less the model expected it.",
    read:
      "The shade is −log p of a piece given those before it, from 0 to 6 nats and more. Point at a piece for its probability; " +
      "click or Enter shows what was likeliest in its place. “…” stands for what may follow.",
    cannot: "Probabilities are the model's own: a piece that it expects may be wrong, and one that surprises it right.",
  },
  places: {
    drawn: "Every head by its place in the network: a row is a position that looks (query), a column one that is looked at (key).",
    read: "Choose a head, or the mean of a place, to see it large below. Point at a cell, or move with the arrow keys, for its exact weight.",
    cannot:
      "Where a model looked is not why it decided. Colors are scaled to the largest weight of each picture, so that two " +
      "compare by their numbers alone.",
  },
  training: {
    drawn: "What the model is made of, how its training went, and for a translation the sentence at each checkpoint.",
    read: "Training loss falls with what was seen, validation loss with what was learned: where the second rises, the model learns by heart.",
    cannot: "Whether another training would have gone alike: it is one run, from one seed.",
  },
  export: {
    drawn: "What is on this page now, to keep or to hand on.",
    read: "The HTML file is this page with its data: it opens anywhere, with no server and no network.",
    cannot: "What was not loaded is not in it: open “Beam”, “Side by side” or “Training” before, where they are wanted.",
  },
};

export const READ_LATE =
  "The links of a piece are taken from the row after its own, where the decoder has just been fed that piece, not from the row " +
  "that predicts it: in this model that row agreed more with word links. The heat map shows every row in its own place.";
