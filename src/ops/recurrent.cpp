#include <ops/support.hpp>

namespace rapt {
namespace {

/// Inputs: gx, gh, h, c; outputs: h', c' (LSTM only).
struct CellNode : Backward {
  kernels::CellBackward op;  // what was saved

  const char* name() const override { return "cell"; }
  void run(Grads& g) override {
    const bool lstm = op.cell == Cell::lstm;
    op.dh_next = g.dy(0);
    if (lstm) op.dc_next = g.dy(1);
    if (!op.dh_next) op.dh_next = Tensor::zeros(op.h.shape(), op.h.dtype(), op.h.device());
    op.dh = Tensor::empty(op.h.shape(), op.h.dtype(), op.h.device());
    op.dgh = Tensor::empty(op.gates.shape(), op.gates.dtype(), op.gates.device());
    if (lstm) op.dc = Tensor::empty(op.h.shape(), op.h.dtype(), op.h.device());
    if (g.wants(0)) {
      const GradTarget dgx = g.into(0);
      op.dgx = dgx.grad;
      op.accumulate_dgx = dgx.accumulate;
    } else {
      op.dgx = Tensor::empty(op.gates.shape(), op.gates.dtype(), op.gates.device());
    }
    kernels::launch(op);
    give(g, 1, op.dgh);
    give(g, 2, op.dh);
    if (lstm) give(g, 3, op.dc);
  }
  static void give(Grads& g, int input, const Tensor& grad) {
    if (!g.wants(input)) return;
    const GradTarget target = g.into(input);
    kernels::launch(kernels::Affine{grad, target.grad, 1, 0, target.accumulate});
  }
};

}  // namespace

CellState cell_step(Cell cell, const Tensor& gx, const Tensor& gates_h, const CellState& state, const Tensor& lengths,
                    int64_t step) {
  require_float("cell", gx, "gx");
  const bool lstm = cell == Cell::lstm;
  const Tensor h = contiguous(state.h), gh = contiguous(gates_h);
  require<ShapeError>(h.rank() == 2, "[cell] h {}: [B, H] is needed", to_string(h.shape()));
  const Shape gate_shape{h.size(0), gate_count(cell) * h.size(1)};
  require_shape("cell", gx, "gx", gate_shape);
  require_shape("cell", gh, "gh", gate_shape);
  require_dtype("cell", h, "h", gx.dtype());
  require_dtype("cell", gh, "gh", gx.dtype());
  require<ShapeError>(!lstm || state.c.defined(), "[cell] the LSTM needs a cell state c");
  require_lengths("cell", lengths, h.size(0), INT32_MAX);
  const Tensor c = lstm ? contiguous(state.c) : Tensor{};
  if (lstm) {
    require_dtype("cell", c, "c", gx.dtype());
    require_shape("cell", c, "c", h.shape());
  }

  kernels::CellForward op;
  op.cell = cell;
  op.gx = gx.stride(-1) == 1 ? gx : contiguous(gx);
  op.gh = gh;
  op.h = h;
  op.c = c;
  op.gates = Tensor::empty(gate_shape, gx.dtype(), gx.device());
  op.h_next = Tensor::empty(h.shape(), h.dtype(), h.device());
  if (lstm) op.c_next = Tensor::empty(h.shape(), h.dtype(), h.device());
  op.lengths = lengths;
  op.step = step;
  kernels::launch(op);

  auto memory = std::make_unique<CellNode>();
  memory->op.cell = cell;
  memory->op.gates = op.gates;
  memory->op.gh = saved(gh);
  memory->op.h = saved(h);
  memory->op.c = saved(c);
  memory->op.c_next = saved(op.c_next);
  memory->op.lengths = lengths;
  memory->op.step = step;
  const Tensor inputs[] = {op.gx, gh, h, c};
  Tensor outputs[] = {op.h_next, op.c_next};
  record(std::move(memory), inputs, std::span(outputs, lstm ? 2 : 1));
  return {op.h_next, op.c_next};
}

}  // namespace rapt
