# %% [markdown]
# # Measurement
#
# **How long does it take, and how sure are you?**
#
# After this chapter you can compare two ways of computing the same thing: first whether they agree, then how many times
# faster one of them is, with an interval.
#
# *6 minutes to read, 5 seconds to run. One section so far; the next are being written.*

# %%
import dis

import numpy as np
from sklearn.datasets import load_digits

from steptime import claim, claims, compare

# %% [markdown]
# ## What does a Python loop cost?
#
# A training script normalises its inputs, and for that it needs their variance: the mean of the squares of the
# centred pixels. Here are the pixels of 1,797 scanned digits, 8 by 8 each.

# %%
images = load_digits().images
pixels = images.ravel() - images.mean()
len(pixels)

# %% [markdown]
# Square each number, add up the squares, divide by how many there are. In Python, word for word:


# %%
def loop(x):
    total = 0.0
    for number in x:
        total += number * number
    return total / len(x)


# %% [markdown]
# And in NumPy, for the whole array at once:


# %%
def vectorised(x):
    return np.mean(x * x)


# %% [markdown]
# **Equal first.** Do the two agree to the last digit? Say yes or no, then look.

# %%
float(loop(pixels)), float(vectorised(pixels))

# %% [markdown]
# Not to the last digit. The loop adds one number after the other and rounds each time. NumPy adds in many short sums
# and then adds those, so it rounds in other places. One rounding is off by at most one part in 2^53, and in the loop a
# number goes through up to 115,008 of them: 1.3e-11 at the worst. A tolerance of 1e-10 lets every such difference pass and
# stops a real mistake. Leave out a single bright pixel and the mean moves by 2e-5 of itself.
#
# **Then fast.** How many times faster is the second? Replace the 30 by your guess before you run this.

# %%
guess = 30
race = compare(loop, vectorised, pixels, same=1e-10, guess=guess)
race

# %% [markdown]
# **Why?** Look at what Python does for each pixel: it is all that stands between `FOR_ITER` and `JUMP_BACKWARD`.

# %%
dis.dis(loop)

# %% [markdown]
# Python carries these out once per pixel, and for each product and each sum it first looks what it was given and makes
# an object for the result. `vectorised` looks once, at the whole array; the arithmetic then runs in compiled code,
# several numbers at a time.
#
# **Is the race fair?** The loop runs over a NumPy array, which makes a new object for every number: one of NumPy's own,
# slower to multiply than a Python number. A plain list holds Python numbers already. Same loop, same sums: does it matter?

# %%
numbers = pixels.tolist()
compare(loop, lambda _: loop(numbers), pixels, guess=1)

# %% [markdown]
# It does. Most of the loop's time went into NumPy's objects, not into Python's. So we gave the slow side a worse form than
# it deserves, and our ratio flattered the fast one. The fair race is this:

# %%
race = compare(lambda _: loop(numbers), vectorised, pixels, same=1e-10)
race

# %%
claim("the loop and the vectorised form agree to 1e-10", race.same)
claim("the vectorised form is at least 20 times faster than the loop over a list", race.at_least(20))

# %% [markdown]
# Still a large ratio, and several times smaller than the first. Before you quote a speed-up, give the slow side its best
# form. This book quotes the second ratio.

# %% [markdown]
# ## What to look for
#
# | what you see | what it usually means | what to try |
# | --- | --- | --- |
# | a `for` loop over the numbers of an array or a tensor | the interpreter works once per number | one operation on the whole array |
# | a loop slower over an array than over a list | NumPy makes an object for each number | `.tolist()` once, or no loop |
# | answers that agree to 12 digits, not to 16 | the same additions in another order | a tolerance that follows from the number of additions |
# | answers that agree to 3 digits | a mistake, or a lower precision | find out which before you time anything |

# %% [markdown]
# ## Exercises
#
# 1. `x * x` writes a second array as large as the first. Find a form that does not (a vector times itself is a number) and
#    race it against `vectorised`. Predict the ratio.
# 2. Set `same=0` and run the race again. What does it say, and what did it not do?
# 3. Race the two forms on `pixels[:10]`, then on more. From which length on is the vectorised form faster?

# %% [markdown]
# ## Sources
#
# - E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998: the digits.
# - N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, chapter 4: how far a sum can be off.
# - NumPy developers, *NumPy reference*, `numpy.sum`, 2025: partial pairwise summation.
# - Python Software Foundation, *The Python Standard Library*, `dis`, 2025: the instructions and their names.

# %% [markdown]
# ## What held on this machine?

# %% tags=["nbval-check-output"]
claims.close()
