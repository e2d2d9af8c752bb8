"""tools/check_includes on made-up trees: what is right passes, each kind of wrong include is reported with its line."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKER = Path(__file__).resolve().parents[2] / "tools/check_includes"
LADDER = """rapt_layer(base)
rapt_layer(tensor base)
rapt_layer(kernels tensor)
rapt_layer(autograd tensor)
rapt_layer(ops kernels autograd)
rapt_layer(nn ops)
"""


def check(files, ladder=LADDER):
    with tempfile.TemporaryDirectory() as root:
        for name, text in {"src/CMakeLists.txt": ladder, **files}.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, CHECKER, root], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr


class CheckIncludes(unittest.TestCase):
    def passes(self, files):
        self.assertEqual(check(files), (0, "", ""))

    def reports(self, files, where):
        status, out, _ = check(files)
        self.assertEqual(status, 1, out)
        self.assertEqual(len(out.splitlines()), 1, out)
        self.assertTrue(out.startswith(where + ": "), out)

    def test_what_stands_below_may_be_included(self):
        self.passes({
            "src/nn/linear.cpp": "#include <base/fail.hpp>\n#include <rapt/ops/matmul.hpp>\n#include <vector>\n",
            "src/ops/matmul.cpp": "#include <kernels/kernels.hpp>\n#include <rapt/kernels/choice.hpp>\n",
            "src/kernels/cpu/gemm.cpp": '#include "gemm.hpp"\n#include <kernels/dispatch.hpp>\n#include <hwy/base.h>\n',
            "include/rapt/tensor/tensor.hpp": "#pragma once\n#include <rapt/base/error.hpp>\n#include <memory>\n",
            "include/rapt/rapt.hpp": "#pragma once\n#include <rapt/nn/linear.hpp>\n",
            "examples/01_tensor.cpp": "#include <rapt/rapt.hpp>\n#include <fmt/format.h>\n",
        })

    def test_a_higher_layer_may_not(self):
        self.reports({"src/tensor/tensor.cpp": "// a view\n#include <rapt/nn/linear.hpp>\n"}, "src/tensor/tensor.cpp:2")

    def test_a_layer_beside_may_not(self):
        self.reports({"src/autograd/tape.cpp": "#include <kernels/kernels.hpp>\n"}, "src/autograd/tape.cpp:1")

    def test_a_relative_path_does_not_hide_it(self):
        self.reports({"src/nn/linear.hpp": "#pragma once\n", "src/base/fail.cpp": '#include "../nn/linear.hpp"\n'},
                     "src/base/fail.cpp:1")

    def test_only_the_contract_of_the_kernels_is_seen(self):
        self.reports({"src/ops/matmul.cpp": "\n\n#include <kernels/dispatch.hpp>\n"}, "src/ops/matmul.cpp:3")
        self.reports({"src/nn/linear.cpp": "#include <kernels/cpu/gemm.hpp>\n"}, "src/nn/linear.cpp:1")

    def test_public_headers_stand_alone(self):
        header = "include/rapt/tensor/tensor.hpp"
        for target in ("tensor/visit.hpp", "fmt/format.h", "nlohmann/json.hpp", "hwy/highway.h", "immintrin.h"):
            self.reports({header: f"#pragma once\n#include <{target}>\n"}, f"{header}:2")
        self.reports({header: "#pragma once\n#include <rapt/nn/linear.hpp>\n"}, f"{header}:2")

    def test_public_headers_do_not_depend_on_the_build(self):
        header = "include/rapt/nn/linear.hpp"
        self.reports({header: "#pragma once\n#ifdef RAPT_CUDA\n#endif\n"}, f"{header}:2")

    def test_users_alone_include_everything(self):
        self.reports({"src/nn/linear.cpp": "#include <rapt/rapt.hpp>\n"}, "src/nn/linear.cpp:1")
        self.reports({"examples/01_tensor.cpp": "#include <kernels/kernels.hpp>\n"}, "examples/01_tensor.cpp:1")

    def test_every_file_has_a_layer(self):
        self.reports({"src/helpers/strings.cpp": ""}, "src/helpers/strings.cpp:1")

    def test_the_ladder_has_no_circle(self):
        status, _, message = check({}, "rapt_layer(base tensor)\nrapt_layer(tensor base)\n")
        self.assertEqual(status, 1)
        self.assertIn("layer base uses tensor", message)


if __name__ == "__main__":
    unittest.main()
