import subprocess
import sys

import pytest

from muster_perf.flags import Flags, parse


def test_defaults_are_nvidias():
    """Without flags: 32 MiB, 20 calls after one to warm up, checked, averaged over ranks."""
    assert parse("x_perf", []) == Flags(
        minbytes=33554432, maxbytes=33554432, stepbytes=1048576, iters=20, warmup_iters=1,
        check=1, op="sum", datatype="float", root=0, average=1, blocking=0,
    )  # fmt: skip


def test_every_flag():
    """Each of nccl-tests' flags that means something here is taken, short or long."""
    words = "-b8 -e 1G -f 2 -i 512K -n 5 -w 3 -c 0 -o max -d half -r -1 -a 3 -z 2 -m 4 -N 0 -J out.json -S 1 -T 30"
    expected = Flags(
        minbytes=8, maxbytes=2**30, stepfactor=2, stepbytes=512 * 1024, iters=5, warmup_iters=3,
        check=0, op="max", datatype="half", root=-1, average=3, blocking=2, agg_iters=4,
        run_cycles=0, output_file="out.json", report_timestamps=True, timeout=30,
    )  # fmt: skip
    assert parse("x_perf", [*words.split(), "-g", "1", "-t", "1"]) == expected
    long = (
        "--minbytes=8 --maxbytes 1g --stepfactor 2 --stepbytes 512k --iters 5 --warmup_iters 3 --check 0 --op max "
        "--datatype half --root -1 --average 3 --blocking 2 --agg_iters 4 --run_cycles 0 --output_file out.json "
        "--report_timestamps 1 --timeout 30"
    )
    assert parse("x_perf", long.split()) == expected


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("-G 1", "-G/--cudagraph is not supported: CUDA graphs"),
        ("--cudagraph 1", "-G/--cudagraph is not supported"),
        ("-R 2", "-R/--local_register is not supported"),
        ("-p 1", "-p/--parallel_init is not supported"),
        ("-C 1", "-C/--report_cputime"),
        ("-M 1", "-M/--memory_report"),
        ("-I 1", "-I/--per_iteration"),
        ("-D 1", "-D/--device_implementation"),
        ("-x 1", "-x/--cta_policy"),
        ("-V 1", "-V/--device_cta_count"),
        ("-y 1", "-y/--stream_null"),
        ("-u 1", "-u/--unalign"),
        ("-K 1", "-K/--skip"),
        ("-g 8", "one process drives one GPU"),
        ("-t 2", "one process drives one GPU"),
        ("-o mulsum", "mulsum is not supported"),
        ("-o and", "'and' is none of sum, prod, min, max, avg, all"),
        ("-d uint64", "uint64 is not supported"),
        ("-d f8e4m3", "f8e4m3 is not supported"),
        ("-d fp32", "'fp32' is none of int8"),
        ("-b 1X", "'1X' is no size"),
        ("-b 2M -e 1M", "-b 2097152 is more than -e 1048576"),
        ("-b 0 -e 8 -f 2", "-b 0 stays 0"),
        ("-i 0", "would never come to an end"),
        ("-n 0", "'0' is no whole number from 1 on"),
        ("-z 3", "-z/--blocking"),
        ("--min 8", "unrecognized arguments: --min 8"),
        ("extra", "unrecognized arguments: extra"),
    ],
)
def test_what_can_not_be_done_is_refused_by_name(words, told, capsys):
    """One line that names the flag and the reason, and status 2: nothing is silently ignored."""
    with pytest.raises(SystemExit) as end:
        parse("x_perf", words.split())
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("x_perf: ")
    assert told in line


def test_help_and_errors_need_no_torch():
    """Neither imports torch: a misspelt flag costs no seconds on 500 hosts."""
    code = (
        "import sys; from muster_perf.commands import main\n"
        "try: main('all_reduce', sys.argv[1:])\n"
        "except SystemExit: print('torch' in sys.modules, file=sys.stderr)"
    )
    for word in ("--help", "--wrong"):
        done = subprocess.run(
            [sys.executable, "-c", code, word], capture_output=True, text=True, check=True
        )
        assert done.stderr.splitlines()[-1] == "False"
