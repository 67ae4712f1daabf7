"""One step of a small module with torch.compile beside the same without, and what that took."""

from __future__ import annotations

import json
import time

import torch
from torch import nn
from torch._inductor import metrics

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 8)).to(
    device
)
inputs = torch.randn(32, 64, device=device)
model(inputs).square().mean().backward()
plain = [parameter.grad.clone() for parameter in model.parameters()]
model.zero_grad()

begin = time.monotonic()
compiled = torch.compile(model)
compiled(inputs).square().mean().backward()
seconds = time.monotonic() - begin
for one, parameter in zip(plain, model.parameters(), strict=True):
    torch.testing.assert_close(parameter.grad, one, rtol=1e-3, atol=1e-4)
kernels = metrics.generated_kernel_count
assert kernels, "nothing was compiled"
print(
    "smoke: " + json.dumps({"device": device, "kernels": kernels, "seconds": seconds}), flush=True
)
