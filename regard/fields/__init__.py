"""Fields: the inputs of networks, from the cells of a row to padded tensors."""
