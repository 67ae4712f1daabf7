"""Write scikit-learn's handwritten digits, 1,797 real 8x8 scans, as FOLDER/digits.npz.

Usage: python make_digits.py FOLDER. The file is what digits_ddp.py expects in channel `training`.
Only this script needs scikit-learn; training does not.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits


def main(argv: list[str]) -> int:
    """Write the file and print its path. Effects: creates the folder and the file."""
    if len(argv) != 1:
        print("usage: python make_digits.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(argv[0])
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    path = folder / "digits.npz"
    # Pixels are whole numbers from 0 to 16: one byte holds one exactly, a float would take eight.
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.int64)
    np.savez_compressed(path, images=images, labels=labels)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
