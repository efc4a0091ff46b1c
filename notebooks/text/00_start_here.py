# %% [markdown]
# # Start here
#
# **What does this book claim, and how do you check it?**
#
# Every claim in this book is measured again on your machine when you run its chapter. After this one you can read a
# claim, its evidence, and its three possible answers.
#
# *5 minutes to read, 8 seconds to run. Press Shift+Enter to run a cell and go to the next.*

# %%
from steptime import claim, claims, compare, machine

# %% [markdown]
# ## What machine is this?
#
# A time means little without the machine that took it. This is yours.

# %%
machine.card()

# %% [markdown]
# Lines that begin with *not here* name what this machine lacks. Sections that need it say so and go on.

# %% [markdown]
# ## How do you read a claim?
#
# What is the sum of all whole numbers below 100,000? One way to find out is to add them up, one after the other.


# %%
def add(n):
    return sum(range(n))


# %% [markdown]
# Young Gauss is said to have found another. Pair the first number with the last, the second with the last but one, and so
# on: each pair adds up to n - 1, and there are n / 2 of them.


# %%
def formula(n):
    return n * (n - 1) // 2


# %% [markdown]
# How many times faster is the formula? Write your guess, then run the cell.

# %%
guess = 100
race = compare(add, formula, 100_000, budget=1, guess=guess)
race

# %% [markdown]
# Read the line from the left. The answers are the same, exactly: that is checked first, for a faster wrong answer is no
# improvement. Then the median time of each side. Then how many times faster the second is, with the interval in which
# that ratio can lie: no more than one such interval in a thousand misses. Last, how many pairs of runs it took.
#
# A claim is a sentence and a verdict.

# %%
claim("the formula gives the same sum", race.same)
claim("the formula is at least 1,000 times faster", race.at_least(1_000))

# %% [markdown]
# ## When does the book say *cannot tell*?
#
# Race Python's `sum` against itself and ask three questions. Is it at least half as fast as itself? Twice as fast? And just as
# fast, or faster? Predict the three answers.

# %%
same_race = compare(sum, sum, range(100_000), budget=1)
for ratio in (0.5, 2, 1):
    print(same_race.at_least(ratio))

# %% [markdown]
# Half as fast: True. Twice as fast: False. But one of the two was a little faster just now, and the race cannot know
# whether that was luck. It draws pairs until the second it may spend is over, and then it says *cannot tell*.
#
# On a noisy machine intervals are wide and more answers become *cannot tell*. That is no failure of yours. Close other
# programs, plug in the charger, and run the section again.

# %% [markdown]
# ## How noisy is your machine?
#
# A race of a function against itself is called an *A/A experiment*. There is nothing to find, so what it shows is noise. How
# far apart are two runs of the same function, one right after the other: by 0.1 %, 1 %, 10 %?

# %%
noise = compare(sum, sum, range(10_000))
alike = noise.within(0.05)
noise.plot()

# %% [markdown]
# Each dot is a pair of runs. The line is the median of all pairs so far, the band where it can lie.

# %%
strayed = sorted(abs(first / second - 1) for first, second in noise.pairs)
print(f"half of the pairs stray by more than {strayed[len(strayed) // 2]:.1%}")
print(f"one in ten by more than {strayed[len(strayed) * 9 // 10]:.1%}")

# %%
claim("sum takes as long as itself within 5 %", alike)

# %% [markdown]
# That is your noise floor. A difference smaller than that, seen once, is nothing. Many pairs together see much less: the band
# narrows, and it stays around 1.

# %% [markdown]
# ## How is a chapter used?
#
# - Run it from the top, or run its first cell and then any one section.
# - Predict before you run. The race prints your guess beside the answer.
# - Change the code. A claim that cannot become False is worth nothing, so try to break it.
#
# Next: [Measurement](01_measurement.ipynb).
#
# | what you see | what it usually means | what to try |
# | --- | --- | --- |
# | `different answers … not timed` | the two sides do not compute the same | find out which is right before you time either |
# | `cannot tell` | the noise is larger than the distance to the threshold | a quieter machine, a larger `budget` |
# | a wide interval | other programs share the cores | close them, compare again |

# %% [markdown]
# ## What held on this machine?

# %% tags=["nbval-check-output"]
claims.close()
