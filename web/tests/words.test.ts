import { expect, test } from "vitest";
import { inputWords, isSpecial, mergeWords, strongest, visible } from "../src/words";

test("weights between words: sum over keys, mean over queries", () => {
  const matrix = { rows: 3, columns: 3, values: Float32Array.from([0.5, 0.25, 0.25, 1, 0, 0, 0, 0, 1]) };
  const queries = { of: [0, 0, 1], spelled: ["ab", "c"] };
  const keys = { of: [0, 1, 1], spelled: ["x", "yz"] };
  expect([...mergeWords(matrix, queries, keys).values]).toEqual([0.75, 0.25, 0, 1]);
});

test("the words of the decoder input start with the begin symbol and omit the last piece", () => {
  expect(inputWords({ of: [0, 0, 1, 2], spelled: ["ab", "c", "</s>"] }, "<s>")).toEqual({
    of: [0, 1, 1, 2],
    spelled: ["<s>", "ab", "c"],
  });
});

test("the strongest links of each row, above the threshold", () => {
  const matrix = { rows: 2, columns: 3, values: Float32Array.from([0.5, 0.125, 0.375, 0, 0, 0]) };
  expect(strongest(matrix, 2, 0).map(({ query, key }) => [query, key])).toEqual([[0, 0], [0, 2]]);
  expect(strongest(matrix, 3, 0.4)).toEqual([{ query: 0, key: 0, weight: 0.5 }]);
});

test("special symbols and blanks", () => {
  expect(["<s>", "</s>", "<pad>", "s", "<unk>"].map(isSpecial)).toEqual([true, true, true, false, false]);
  expect([visible(" "), visible("a")]).toEqual(["␣", "a"]);
});
