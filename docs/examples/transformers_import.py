"""transformers: a saved language model becomes a run, with equal probabilities."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import regard

lines = ["the dog runs", "the cat sits", "a dog sits"] * 20
bpe = Tokenizer(models.BPE())
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
bpe.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=280, special_tokens=["<eos>"], initial_alphabet=alphabet))

torch.manual_seed(1)
sizes = {"vocab_size": bpe.get_vocab_size(), "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
ends = {"bos_token_id": 0, "eos_token_id": 0}
gpt2 = GPT2LMHeadModel(GPT2Config(**sizes, **ends)).eval()
gpt2.save_pretrained("gpt2")
PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<eos>", eos_token="<eos>").save_pretrained("gpt2")

run = regard.import_model("gpt2", "runs/gpt2")
generator = regard.load(run, regard.Generator)

text = "the dog sits"
ids = torch.tensor([[0, *bpe.encode(text).ids]])
with torch.inference_mode():
    loss = float(gpt2(ids, labels=ids).loss)
score = generator.score(text)
print(f"{loss:.6f} {score.nll / score.tokens:.6f} nats per token")
assert abs(loss - score.nll / score.tokens) < 1e-4
print(generator("the", length=5, seed=1).text)
