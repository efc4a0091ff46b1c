# %% [markdown]
# # Precision
#
# **How few bits are enough, and do they make it faster?**
#
# After this chapter you know what the two kinds of 16-bit numbers can hold, what goes wrong in training and what mends
# it, what `autocast` really does, and how to find out whether 16 bits are faster on the machine at hand. Here they may be
# slower. Read it before you switch on mixed precision, or when a training with it goes wrong.
#
# *25 minutes to read, 20 seconds to run.*

# %%
from collections import Counter

import torch
from sklearn.datasets import load_digits
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy

from steptime import Verdict, claim, claim_on, claims, compare
from steptime.answers import difference
from steptime.style import COLOURS, Picture, figure

torch.set_num_threads(1)


def network(seed=0):
    """64 inputs, a hidden layer of 256 with GELU, 10 classes."""
    torch.manual_seed(seed)
    hidden = torch.nn.Linear(64, 256)
    return torch.nn.Sequential(hidden, torch.nn.GELU(), torch.nn.Linear(256, 10))


def digits(count):
    """Scanned digits, pixels from 0 to 1, with what they show."""
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images[:count] / 16, dtype=torch.float32), torch.tensor(labels[:count])


# %% [markdown]
# ## What fits into 16 bits?
#
# A floating-point number has a sign, an *exponent*, which sets how far it reaches, and a *mantissa*, which sets how fine
# its steps are. float32 has 8 and 23 bits for them. With 16 bits one must choose: *fp16* (`torch.float16`) takes 5 and
# 10, *bf16* (`torch.bfloat16`) 8 and 7. Here is one third:


# %%
def bits(number, dtype, exponent):
    size = torch.tensor(0, dtype=dtype).itemsize
    whole = (
        torch.tensor(number, dtype=dtype).view({2: torch.int16, 4: torch.int32}[size]).item()
    )
    text = f"{whole % 2 ** (8 * size):0{8 * size}b}"
    return f"{text[0]} {text[1 : 1 + exponent]} {text[1 + exponent :]}"


# %%
formats = {torch.float32: 8, torch.bfloat16: 8, torch.float16: 5}
for dtype, exponent in formats.items():
    print(f"{str(dtype)[6:]:<9} {bits(1 / 3, dtype, exponent)}")

# %% [markdown]
# Read it like this. The first bit is the sign. The second group is the exponent: 01111101 is 125, and 127 stands for 2^0,
# so the number begins with 2^-2. The last group holds what follows after "1." in base two. One third is 1.010101... times
# one quarter, in all three; they differ in where they stop.
#
# bf16 is the first half of a float32, rounded. That is why a conversion between the two costs nearly nothing. What do the
# bits mean for the largest number, the smallest above 0, and the step from 1 to the next number?

# %%
for dtype in formats:
    info = torch.finfo(dtype)
    print(f"{str(dtype)[6:]:<9} {info.max:.3g} {info.smallest_normal:.3g} {info.eps:.3g}")

# %% [markdown]
# (Below its smallest normal number each of them has a few more, with fewer and fewer bits: fp16 goes down to 6e-8 that
# way.)
#
# How far does fp16 reach? Put 70,000 into each. A sum of squares in a layer gets there sooner than one thinks.

# %%
large = {dtype: torch.tensor(70_000.0).to(dtype).item() for dtype in formats}
large

# %%
claim("70,000 is infinite in fp16", large[torch.float16] == float("inf"))
claim(
    "in bf16 it is a number, 0.4 % off at most", abs(large[torch.bfloat16] / 70_000 - 1) < 4e-3
)

# %% [markdown]
# In fp16 the number is gone for good: infinity minus infinity is not a number, and one of those in a loss spoils all the
# weights in the next step. In bf16 it is 70,144: there, and rough.
#
# The price of bf16's reach are coarse steps. Start at 0 and add 1 again and again. Where does it stop to count?


# %%
def counts_to(dtype):
    total, one = torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)
    while total + one != total and total < 10_000:
        total = total + one
    return int(total)


# %%
last = {dtype: counts_to(dtype) for dtype in (torch.bfloat16, torch.float16)}
last

# %%
claim("bf16 counts by ones to 256, fp16 to 2,048", list(last.values()) == [256, 2_048])

# %% [markdown]
# From there on 1 is at most half a step, and is rounded away. This is no rare case: a mean over 1,024 values adds up
# 1,024 of them. So nobody adds up a long sum in 16 bits. A product of matrices in 16 bits takes its factors in 16 bits,
# usually adds up in float32 inside, and rounds at the end.

# %% [markdown]
# ## Which gradients vanish?
#
# Below 6e-8 fp16 has nothing but 0: a number that falls there *underflows*. Are there gradients so small? At the start of
# a training hardly any. They shrink as the network gets better, for a digit that is right already asks for no change. So
# train the network on digits for a while, in float32, then draw the size of its gradients. Guess where the middle lies:
# at 2^-5, 2^-15, 2^-25?

# %%
net, (x, labels) = network(), digits(512)
optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)

# %%
for _ in range(150):
    optimiser.zero_grad()
    cross_entropy(net(x), labels).backward()
    optimiser.step()


# %%
def gradients(net, x, scale=1):
    net.zero_grad()
    (cross_entropy(net(x).float(), labels) * scale).backward()
    return torch.cat([parameter.grad.flatten() for parameter in net.parameters()])


# %%
exact = gradients(net, x)
sizes = exact[exact != 0].abs().log2()

# %%
canvas, axes = figure()
axes.hist(sizes.tolist(), bins=60, color=COLOURS["estimate"])
axes.axvline(-24, color=COLOURS["threshold"], linestyle="--", label="least fp16 above 0")
axes.set(xlabel="size of a gradient, as a power of 2", ylabel="how many")
axes.legend(frameon=False)
alt = f"Most gradients lie around 2^{sizes.median():.0f}; fp16 ends at 2^-24."
Picture(canvas, alt, "Left of the dashed line fp16 has no number but 0.")

# %% [markdown]
# The range is wide, far wider than that of the weights, and its lower end is cut off in fp16. Now the same network in
# fp16, forward and backward. Which share of those gradients, none of them 0 in float32, is 0?

# %%
half = network().half()
half.load_state_dict(net.state_dict())
plain = gradients(half, x.half())


# %%
def vanished(found):
    return ((found == 0) & (exact != 0)).sum().item() / (exact != 0).sum().item()


f"{vanished(plain):.1%} of them are 0"

# %% [markdown]
# A weight whose gradient is 0 does not learn. It gets no smaller step; it gets none.
#
# **The cure.** There is room at the other end: the largest gradients lie far below 65,504. So multiply the loss by 1,024
# before the backward pass. By the chain rule all gradients are then 1,024 times as large, on their way through the layers
# too, and the whole picture moves ten places to the right. Divide at the end, in float32, where nothing underflows. This
# is *loss scaling* (Micikevicius and others, 2018). One multiplication by a power of two rounds nothing.

# %%
scaled = gradients(half, x.half(), scale=1_024).float() / 1_024
print(f"0 without scaling: {vanished(plain):.1%}, with: {vanished(scaled):.1%}")

# %%
lost, left = vanished(plain), vanished(scaled)
claim("in fp16 over one gradient in fifty vanishes", lost > 0.02)
claim("the loss scaled by 1,024, less than a quarter as many do", left < lost / 4)

# %% [markdown]
# bf16 reaches as far down as float32, so it needs no scaling. The same network once more, with the same inputs:

# %%
wide = network().bfloat16()
wide.load_state_dict(net.state_dict())
claim(
    "in bf16 less than one in a thousand vanishes",
    vanished(gradients(wide, x.bfloat16())) < 1e-3,
)

# %% [markdown]
# ## What if the scale is too large?
#
# Then something overflows: infinity, and after it no number at all. Too small a scale loses gradients, too large a one
# loses the step, and what is right changes while the network learns. `torch.amp.GradScaler` searches for it all the time:
#
# - `scale(loss)` multiplies the loss, so that backward gives scaled gradients;
# - `step(optimiser)` divides them again and looks whether all are finite. If so it steps; if not it skips this step;
# - `update()` halves the scale after a skipped step. After some good steps in a row it doubles the scale and tries its luck.
#
# As it comes it starts at 65,536 and waits for 2,000 good steps. Here it starts far too high, at 2^32, and waits for
# five. What will the scale do in forty steps? Draw the curve in your head first.

# %%
net, (x, labels) = network(), digits(64)
optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**32, growth_interval=5)


# %%
def step():
    optimiser.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = cross_entropy(net(x), labels)
    scaler.scale(loss).backward()
    scaler.step(optimiser)
    scaler.update()


# %%
scales, moved = [], []
for _ in range(40):
    before, scale = net[0].weight.clone(), scaler.get_scale()
    step()
    scales.append(scale)
    moved.append(not torch.equal(before, net[0].weight))

# %%
skipped = [place for place, stepped in enumerate(moved) if not stepped]
crosses = [scales[place] for place in skipped]

# %%
canvas, axes = figure()
axes.plot(scales, color=COLOURS["estimate"], drawstyle="steps-post")
axes.plot(skipped, crosses, "x", color=COLOURS["threshold"])
axes.set(xlabel="step", ylabel="scale")
axes.set_yscale("log", base=2)
alt = f"The scale falls from 2^32 and then saw-tooths; {len(skipped)} of 40 steps are skipped."
Picture(
    canvas,
    alt,
    "Each cross is a step that overflowed: it changed nothing, and the scale was halved.",
)

# %%
after = [*scales[1:], scaler.get_scale()]
halved = [later < earlier for earlier, later in zip(scales, after)]

# %%
claim("the first step overflows and changes no weight", not moved[0])
claim(
    "the scale is halved after each skipped step, and after no other",
    any(moved) and halved == [not stepped for stepped in moved],
)

# %% [markdown]
# First it falls until nothing overflows. Then it climbs by one step too far, falls back, and climbs again. So in fp16 a
# skipped step now and then is no fault; it is how the scale finds its place. Each costs one batch. If the scale falls
# without end, some gradient is infinite at any scale, and something is wrong with the model or its data.
#
# Clip gradients only after `scaler.unscale_(optimiser)`: before that they are as large as the scale makes them.

# %% [markdown]
# ## Why are the weights kept in 32 bits?
#
# The other half of the recipe. An update is much smaller than the weight it is taken from: the learning rate sees to
# that. A weight of 1 gets a hundred updates of 0.001 each. Predict the three results.


# %%
def updated(dtype):
    weight = torch.ones((), dtype=dtype)
    for _ in range(100):
        weight = weight - torch.tensor(0.001, dtype=dtype)
    return weight.item()


# %%
results = {dtype: updated(dtype) for dtype in (torch.float32, torch.float16, torch.bfloat16)}
results

# %%
claim("in bf16 a hundred updates of 0.001 leave 1 at 1", results[torch.bfloat16] == 1)
claim("in float32 they make it 0.9", abs(results[torch.float32] - 0.9) < 1e-5)

# %% [markdown]
# Below 1 the steps of bf16 are 1 / 256 = 0.004. An update of 0.001 is less than half of that, so it is rounded away, and
# a hundred times nothing is nothing. fp16's steps are eight times as fine: it arrives, a little off.
#
# Does this happen to real weights? One step of SGD with a learning rate of 0.01, on the digits. Which share of the last
# layer's weights has a gradient and does not move?


# %%
def unmoved(dtype):
    net, (x, labels) = network().to(dtype), digits(256)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
    cross_entropy(net(x.to(dtype)).float(), labels).backward()
    weight, before = net[2].weight, net[2].weight.detach().clone()
    optimiser.step()
    return ((weight == before) & (weight.grad != 0)).float().mean().item()


# %%
shares = unmoved(torch.float32), unmoved(torch.bfloat16)
print("{:.1%} of float32's, {:.1%} of bf16's".format(*shares))

# %%
claim("in float32 less than 2 % of the weights stay where they are", shares[0] < 0.02)
claim("in bf16 over a third do", shares[1] > 1 / 3)

# %% [markdown]
# About two thirds stand still in a step that was meant for all of the layer. So *mixed precision* keeps the weights in
# float32, the *master weights*, and only computes in 16 bits. An update that is too small to show in the copy is still
# there in the master, and after some more of them the copy moves. That costs memory: four bytes a weight beside the two
# that the products use. Gradients may well be in 16 bits; what must not be is the sum of many updates.

# %% [markdown]
# ## What does autocast choose?
#
# Inside of a `torch.autocast` block torch decides for each operator in which type it runs. It casts the inputs, and keeps
# the copies of weights for as long as the block lasts. What it decides depends on the device, and changes from version to
# version. Do not believe a table in a book; print yours. Here are eight operators, some given float32 and some bf16.
# Which results will be float32?

# %%
matrix, labels = torch.rand(8, 8), torch.arange(8)
narrow = matrix.bfloat16()
functional = torch.nn.functional

# %%
operators = {
    "linear of float32": lambda: functional.linear(matrix, matrix),
    "product of float32": lambda: matrix @ matrix,
    "softmax of bf16": lambda: narrow.softmax(-1),
    "sum of bf16": lambda: narrow.sum(),
    "layer_norm of bf16": lambda: functional.layer_norm(narrow, (8,)),
    "gelu of float32": lambda: functional.gelu(matrix),
    "cross_entropy of bf16": lambda: cross_entropy(narrow, labels),
    "mse_loss of bf16": lambda: functional.mse_loss(narrow, narrow),
}

# %%
with torch.autocast("cpu", dtype=torch.bfloat16):
    chosen = {name: operator().dtype for name, operator in operators.items()}
for name, dtype in chosen.items():
    print(f"{name:<22} {str(dtype)[6:]}")

# %%
products = chosen["linear of float32"], chosen["product of float32"]
claim("autocast multiplies float32 in bf16", set(products) == {torch.bfloat16})
losses = chosen["cross_entropy of bf16"], chosen["mse_loss of bf16"]
claim("autocast takes bf16 to float32 for a loss", set(losses) == {torch.float32})

# %% [markdown]
# Products are where the arithmetic is, and their sums are in float32 inside: 16 bits. Losses are where small differences
# count: float32. On a CPU softmax, sums and layer_norm take what they are given; on CUDA they go to float32, for they add
# up many numbers. Whatever autocast does not know, gelu say, runs in the type of its input.
#
# **And the weights?** They stay in float32, as the last section asks; a copy is made for the product. Let `backward` run
# outside of the block. Each operator's gradient takes the type that its forward had, whatever the block says, and arrives
# at the weight as float32.


# %%
def trained(**options):
    net, (x, labels) = network(), digits(256)
    with torch.autocast("cpu", **options):
        loss = cross_entropy(net(x), labels)
    loss.backward()
    return net


# %%
net, plain = trained(dtype=torch.bfloat16), trained(enabled=False)
parameters = list(net.parameters())
types = Counter(str(p.dtype) for p in (*parameters, *(p.grad for p in parameters)))

# %%
apart = difference(plain[0].weight.grad, net[0].weight.grad)
print(dict(types), f"the first layer's gradients {apart:.1e} apart")

# %%
claim(
    "weights and gradients are float32, and the gradients those of bf16, 1e-4 to 0.1 apart",
    set(types) == {"torch.float32"} and 1e-4 < apart < 0.1,
)

# %% [markdown]
# float32 on the outside, the accuracy of bf16 on the inside. With bf16 that is all: no scaler. With fp16 use the scaler
# too.
#
# Old texts write `torch.cuda.amp.autocast` and `torch.cuda.amp.GradScaler`. They are deprecated; `torch.amp` serves all
# devices.

# %% [markdown]
# ## How far off is the answer?
#
# To judge a precision one needs a better one: float64. The untrained network, 1,024 images, five seeds. The distance is
# the largest difference, divided by the largest score. Guess how many digits float32 gets right, and how many bf16. And
# of 1,024 classes, how many come out differently?

# %%
x, _ = digits(1_024)


def answers(seed):
    net = network(seed)
    exact = network(seed).double()(x.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = net(x)
    return exact.detach(), net(x).detach(), narrow.float().detach()


# %%
def row(seed):
    exact, single, narrow = answers(seed)
    agree = (narrow.argmax(1) == exact.argmax(1)).float().mean().item()
    return difference(exact, single), difference(exact, narrow), agree


# %%
rows = []
print("seed  float32     bf16   same class")
for seed in range(5):
    rows.append(row(seed))
    print(f"{seed:>4}  {rows[-1][0]:.1e}  {rows[-1][1]:.1e}  {rows[-1][2]:.4f}")

# %%
singles, narrows, agreed = zip(*rows)
claim("float32 is less than 1e-5 from float64", max(singles) < 1e-5)
claim("bf16 is 1e-3 to 5e-2 from it", min(narrows) > 1e-3 and max(narrows) < 5e-2)
claim("the class is the same for at least 97 digits in 100", min(agreed) >= 0.97)

# %% [markdown]
# 7 bits of mantissa give steps of 1 / 128 of a number; half of that is 0.4 %, which is what you see. It does not grow
# with the 64 products that are added up, because they are added in float32.
#
# So a tolerance must fit the precision: 1e-5 would call every bf16 network wrong, and 0.1 would let mistakes pass. The
# classes that flip should be those where two scores were nearly equal. Whether they are, and whether training still ends
# at the same accuracy, are questions for [chapter 08](08_verification.ipynb).

# %% [markdown]
# ## Is it faster here?
#
# 16 bits halve the bytes, so what is bound by memory can be up to twice as fast, anywhere. Arithmetic is faster only
# where the hardware has units for it. Ask it: AVX-512 with its bf16 instructions or AMX on a CPU, tensor cores on a GPU.

# %%
has = torch.cpu.get_capabilities()
units = [name for name in ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16") if has.get(name)]
print("CPU:", units or "no units for bf16")
print("oneDNN, which has kernels for 16 bits:", torch.backends.mkldnn.is_available())
cuda = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
print("CUDA with bf16:", cuda)

# %% [markdown]
# Asking is not enough. A library may find units and have no kernel for them, or have a kernel and find no units; then it
# converts each number to float32, computes, and converts back. So measure: a product, which arithmetic limits; relu on an
# array that fits no cache, which memory limits; and tanh on one that does. Equal first, to what bf16 can hold. Guess all
# three ratios. Above 1 means that bf16 is faster.


# %%
def faster(function, *shape):
    """float32 against bf16, on the same numbers."""
    torch.manual_seed(0)
    x = torch.rand(*shape)
    narrow = x.bfloat16()
    return compare(lambda: function(x), lambda: function(narrow), same=0.02, budget=2)


# %%
races = {
    "product of 128": faster(lambda x: x @ x, 128, 128),
    "relu of 4 million": faster(torch.relu, 2**22),
    "tanh of 65,536": faster(torch.tanh, 2**16),
}
for name, race in races.items():
    print(f"{name:<18} {race.ratio:.2g}x  {race}")


# %%
def in_words(ratios):
    if ratios.above(1.03):  # two copies of one function can differ by 3 %
        return "faster"
    return "slower" if ratios.above(1 / 1.03) is False else "as fast, or nobody can tell"


for name, race in races.items():
    print(f"on this machine {name} in bf16 is {in_words(race.ratios)}")

# %%
claim(
    "all three give the same answer, to what bf16 holds",
    all(race.same for race in races.values()),
)

# %% [markdown]
# No claim about speed, for your hardware decides. On the machine these lines were stored on, a CPU without units for
# bf16, the product is tens of times *slower*, and autocast would slow its training down by as much. fp16 is no better
# there. A speed-up that somebody measured on another machine says nothing about yours.
#
# **Memory is saved in any case.** Count what a forward pass keeps for backward, with and without autocast, at 1,024
# digits. Which part of the bytes will be left?


# %%
def kept(enabled):
    net, (x, labels), pieces = network(), digits(1_024), {}

    def note(tensor):
        pieces[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    context = torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled)
    with context, saved_tensors_hooks(note, lambda tensor: tensor):
        loss = cross_entropy(net(x), labels)
    return sum(pieces.values()) * loss.requires_grad


# %%
in_float32, in_bf16 = kept(False), kept(True)
f"{in_float32:,} bytes in float32, {in_bf16:,} with autocast"

# %%
claim("autocast keeps less than 0.6 of the bytes for backward", in_bf16 < 0.6 * in_float32)

# %% [markdown]
# Activations are halved; [chapter 07](07_memory.ipynb) counts what else a step keeps. The weights and the optimiser's
# state stay as they were.
#
# **[GPU]** *Tensor cores* are units for small products; NVIDIA GPUs have them for fp16 since 2017, for bf16 and TF32
# since 2020. *TF32* is a third way: float32 in memory, rounded to 10 bits of mantissa for the product alone. It reaches
# as far as float32 and steps as fine as fp16. For products it is off unless you allow it; for cuDNN's convolutions it
# is on.


# %%
def product(matrix, precision="highest"):
    torch.set_float32_matmul_precision(precision)
    answer = matrix @ matrix
    torch.set_float32_matmul_precision("highest")
    return answer


def products_on_cuda(dtype, precision, times):
    if torch.cuda.get_device_capability() < (8, 0):
        return Verdict(None, "this GPU has no tensor cores for it")
    matrix = torch.rand(4_096, 4_096, device="cuda")
    narrow = matrix.to(dtype)
    wide, other = lambda: product(matrix), lambda: product(narrow, precision)
    return compare(wide, other, same=0.02, budget=2).at_least(times)


# %%
claim_on(
    "CUDA",
    "a product in bf16 is at least twice as fast as in float32",
    lambda: products_on_cuda(torch.bfloat16, "highest", 2),
)
claim_on(
    "CUDA",
    "with TF32 a product is at least 1.5 times as fast, in float32",
    lambda: products_on_cuda(torch.float32, "high", 1.5),
)

# %% [markdown]
# ## What to look for
#
# | what you see | what it usually means | what to try |
# | --- | --- | --- |
# | the loss is NaN after some steps in fp16 | an overflow | `GradScaler`; bf16 |
# | training in fp16 stands still | gradients are 0 | loss scaling; bf16 |
# | training in pure bf16 stands still at the end | updates are rounded away | float32 weights with autocast |
# | the scale falls without end | gradients are infinite at any scale | look for the operator, in float32 |
# | a sum or a mean is off in the second digit | added up in 16 bits | `.float()` before the sum |
# | autocast, and the step is slower | no units for it, or many small casts | measure; leave it off |
# | autocast, and memory hardly falls | weights and optimiser state dominate | another optimiser, sharding |

# %% [markdown]
# ## Exercises
#
# 1. How far does bf16 count by steps of 2? Predict it from the bits.
# 2. Find the largest loss scale at which the trained network's fp16 gradients are still finite. What limits it?
# 3. Give the scaler `growth_interval=1`. Which share of the steps is skipped?
# 4. Train on the digits to 95 % in float32, with autocast, and in pure bf16: how many steps does each need?
# 5. Add `exp`, `batch_norm` and a convolution to the table of autocast.
# 6. From which size on is a product in bf16 slower, or faster, on your machine?
#
# Problem set 06 goes with this chapter: five problems with tests that grade them, about an hour. `make release SET=06`
# puts it into `build/release`. Exercise 1 comes back there as problem 1, exercise 3 as problem 2, exercise 5
# as problem 4.

# %% [markdown]
# ## Sources
#
# - P. Micikevicius and others, *Mixed Precision Training*, 2018: loss scaling, master weights.
# - D. Kalamkar and others, *A Study of BFLOAT16 for Deep Learning Training*, 2019.
# - IEEE, *Standard for Floating-Point Arithmetic* (754), 2019.
# - NVIDIA, *A100 Tensor Core GPU Architecture*, 2020: TF32.
# - PyTorch contributors, *Automatic Mixed Precision package: torch.amp*, 2026.

# %% [markdown]
# ## What held on this machine?

# %% tags=["nbval-check-output"]
claims.close()
