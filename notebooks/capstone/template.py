"""Your attempt at the capstone.

The goal: what train_slow.py does, at least 10 times faster from the call of `train` to its answer, at an equivalent
accuracy. The rules:

- `train(folder, seed)` trains from scratch, on the sheets in folder/train and the labels in folder/labels.txt.
- It returns one class, 0 to 9, for each digit of the sheets in folder/test, sheet by sheet, row by row.
- Every call gets other sheets, and the classes other names. What an earlier call learnt is wrong in the next.

Begin with a copy of train_slow.py, or here. Then:

    python notebooks/capstone/check.py notebooks/capstone/my_train.py
"""


def train(folder, seed):
    """Train on the sheets of folder/train; the classes of the digits in folder/test, in order."""
    raise NotImplementedError("write it, or copy train_slow.py and mend that")
