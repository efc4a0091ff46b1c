"""The roofline: exact counts of work, roofs that the machine really reaches, spots under them."""

import math

import psutil
import pytest
import torch
from torch.nn.functional import conv2d, scaled_dot_product_attention

from steptime import machine
from steptime.roofline import ARRAY, Roofs, Work, array_length, measure_roofs, work_of

ROOFS = Roofs(flops=100e9, bandwidth=10e9, dtype=torch.float32, threads=1)


def test_a_product_reads_two_matrices_and_writes_one():
    work = work_of(torch.mm, torch.rand(8, 16), torch.rand(16, 4))
    assert work == Work(flops=2 * 8 * 16 * 4, bytes=4 * (8 * 16 + 16 * 4 + 8 * 4), operators=1)


def test_a_chain_moves_each_intermediate_twice_and_a_fused_one_moves_none():
    x = torch.rand(1_000)
    chain = lambda x: torch.tanh(x) * 2 + 1  # noqa: E731
    assert work_of(chain, x) == Work(3_000, 3 * 2 * 4_000, 3)
    assert work_of(chain, x, fused=True) == Work(3_000, 2 * 4_000, 1)


def test_half_the_bytes_in_16_bits():
    x = torch.rand(1_000)
    assert work_of(torch.relu, x.bfloat16()).bytes == work_of(torch.relu, x).bytes / 2


def test_views_and_empty_memory_move_nothing():
    work = work_of(lambda x: x.t().reshape(-1).expand(7, -1)[:2], torch.rand(1, 50))
    assert work == Work(0, 0, 0) and work.intensity == math.inf
    assert work_of(torch.empty, 100).bytes == 0


def test_a_number_that_is_read_again_and_again_is_moved_once():
    row = torch.rand(1, 100).expand(50, 100)
    assert work_of(torch.relu, row).bytes == 400 + 20_000


def test_an_operator_in_place_reads_and_writes_and_a_given_buffer_is_only_written():
    x = torch.rand(100)
    assert work_of(lambda x: x.add_(1), x).bytes == 800
    assert work_of(lambda x: torch.add(x, 1, out=torch.empty(100)), x).bytes == 800


def test_a_reduction_counts_what_it_reads():
    assert work_of(torch.sum, torch.rand(30, 10)) == Work(300, 4 * 301, 1)


def test_attention_is_counted_on_the_cpu_too():
    q = torch.rand(1, 2, 64, 16)
    written_out = work_of(lambda q: (q @ q.transpose(-1, -2)) @ q, q)
    assert work_of(scaled_dot_product_attention, q, q, q).flops == written_out.flops == 2 * 2 * 2 * 64 * 64 * 16


def test_attentions_backward_pass_is_five_products_for_the_two_of_the_forward_pass():
    q, gradient = torch.rand(1, 2, 64, 16, requires_grad=True), torch.rand(1, 2, 64, 16)
    k, v = (torch.rand(1, 2, 64, 16, requires_grad=True) for _ in range(2))
    both = work_of(lambda: torch.autograd.grad(scaled_dot_product_attention(q, k, v), (q, k, v), gradient))
    assert both.flops == (2 + 5) * 2 * 2 * 64 * 64 * 16


def test_a_convolution_is_as_many_products_as_it_has_places_and_weights():
    x, weight = torch.rand(2, 3, 8, 8), torch.rand(5, 3, 3, 3, requires_grad=True)
    forward = 2 * (2 * 6 * 6) * weight.numel()
    with torch.no_grad():
        work = work_of(conv2d, x, weight)
    assert work == Work(forward, 4 * (x.numel() + weight.numel() + 2 * 5 * 6 * 6))
    both = work_of(lambda: torch.autograd.grad(conv2d(x, weight), weight, torch.ones(2, 5, 6, 6)))
    assert both.flops == 2 * forward


def test_an_operator_on_lists_reads_and_writes_all_their_tensors():
    pair = [torch.rand(100), torch.rand(50)]
    assert work_of(torch._foreach_add_, pair, 1).bytes == 4 * 2 * 150
    assert work_of(torch._foreach_add, pair, 1).bytes == 4 * 2 * 150


def test_a_backward_pass_is_counted():
    weight = torch.rand(4, 3, requires_grad=True)
    work = work_of(lambda x: (x @ weight).sum().backward(), torch.rand(8, 4))
    assert work.flops >= 2 * (2 * 8 * 4 * 3)  # the product, and the gradient of its weight


def test_the_lower_roof_is_the_limit():
    assert ROOFS.ridge == 10 and ROOFS.at(1) == 10e9 and ROOFS.at(1_000) == 100e9
    assert ROOFS.least_seconds(Work(flops=100, bytes=1_000)) == pytest.approx(1e-7)
    assert ROOFS.least_seconds(Work(flops=10**6, bytes=1_000)) == pytest.approx(1e-5)


def test_a_spot_knows_its_roof():
    matrix = torch.rand(256, 256)
    product, chain = ROOFS.place(torch.mm, matrix, matrix, seconds=0.05), ROOFS.place(torch.relu, matrix, seconds=0.05)
    assert (product.limit, chain.limit) == ("arithmetic", "memory")
    assert product.rate == product.work.flops / product.seconds
    assert product.share == pytest.approx(product.rate / ROOFS.flops)
    assert "relu: 0.125 FLOP a byte" in repr(chain) and "of the memory roof" in repr(chain)
    picture = ROOFS.plot(product, chain)
    assert "mm: 42.7 FLOP a byte" in picture.alt and "<img alt=" in picture._repr_html_()


def test_work_that_the_counter_cannot_see_can_be_told():
    fused = Work(3, 8)
    assert ROOFS.place(torch.relu, torch.rand(10), work=fused, name="mine", seconds=0.01).work == fused


def test_the_roofs_of_this_machine_are_above_what_ordinary_code_reaches():
    torch.set_num_threads(1)
    roofs = measure_roofs(seconds=1)
    matrix = torch.rand(700, 700)
    product = roofs.place(torch.mm, matrix, matrix)
    x = torch.rand(2**23)
    doubled = torch.empty_like(x)
    copy = roofs.place(lambda x: torch.mul(x, 2, out=doubled), x)  # fresh memory would cost more than the moving
    assert 0.3 < product.share < 1.3, product
    assert 0.2 < copy.share < 1.5, copy
    assert roofs.threads == 1 and "1 thread: " in repr(roofs) and repr(roofs).startswith("float32")


def test_the_peak_of_wider_numbers_is_lower():
    torch.set_num_threads(1)
    narrow, wide = (measure_roofs(dtype, seconds=0.6).flops for dtype in (torch.float32, torch.float64))
    assert 1.2 < narrow / wide < 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"dtype": torch.int32}, "no FLOP/s of torch.int32"),
        ({"dtype": torch.float8_e8m0fnu}, "no product of matrices of torch.float8_e8m0fnu"),
        ({"seconds": 0}, "seconds must be above 0"),
    ],
)
def test_what_has_no_roof_is_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        measure_roofs(**arguments)


@pytest.mark.skipif(psutil.virtual_memory().available < 2**33, reason="little memory: the arrays are smaller")
def test_the_triads_arrays_are_four_times_the_last_level_cache_and_leave_most_of_the_memory_free(monkeypatch):
    for cache, length in ((0, ARRAY), (2 * ARRAY, 2 * ARRAY)):
        monkeypatch.setattr(machine, "last_level_cache", lambda threads, cache=cache: cache)
        assert array_length() == length
    monkeypatch.setattr(machine, "last_level_cache", lambda threads: 2**50)
    assert 3 * 4 * array_length() < 0.15 * psutil.virtual_memory().available
