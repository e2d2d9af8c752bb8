"""check_readme.py PROGRAM: the README's example is tests/install/user.cpp, and what it shows is what PROGRAM prints."""
import re
import subprocess
import sys
from pathlib import Path

here = Path(__file__).resolve().parent
readme = (here.parents[1] / "README.md").read_text()


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL).group(1)


printed = subprocess.run(sys.argv[1], capture_output=True, text=True, check=True).stdout
wrong = [what for what, shown, real in (("example", block("cpp"), (here / "user.cpp").read_text()),
                                        ("output", block("text"), printed),
                                        ("CMakeLists.txt", block("cmake"), (here / "CMakeLists.txt").read_text()))
         if shown.strip() not in real]
print(printed, end="")
sys.exit(f"README.md shows another {' and '.join(wrong)} than tests/install" if wrong else 0)
