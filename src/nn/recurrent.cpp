#include <ops/support.hpp>
#include <rapt/nn/recurrent.hpp>

namespace rapt::nn {

CellState Recurrent::start(int64_t batch, DType dtype) const {
  CellState state{Tensor::zeros({batch, H}, dtype), {}};
  if (cell == Cell::lstm) state.c = Tensor::zeros({batch, H}, dtype);
  return state;
}

Recurrent::Result Recurrent::operator()(const Tensor& x, const Tensor& lengths, const CellState& start,
                                        bool from_the_end) const {
  const int64_t T = x.size(1);
  require<ShapeError>(T > 0, "[recurrent] a sequence of length 0: x {}", to_string(x.shape()));
  require_lengths("recurrent", lengths, x.size(0), T);
  const Tensor gx = W(x);  // [B, T, G]
  CellState state = start;
  std::vector<Tensor> outputs(static_cast<size_t>(T));
  for (int64_t i = 0; i < T; ++i) {
    const int64_t t = from_the_end ? T - 1 - i : i;
    state = cell_step(cell, gx.select(1, t), U(state.h), state, lengths, t);
    outputs[size_t(t)] = state.h;
  }
  return {stack(outputs, 1), state};
}

RecurrentStack::RecurrentStack(const Scope& scope, Cell cell, int64_t layers, int64_t d_in, int64_t H,
                               bool bidirectional, float p)
    : p(p) {
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t in = i == 0 ? d_in : bidirectional ? 2 * H : H;
    forwards.emplace_back(bidirectional ? scope / i / "forward" : scope / i, cell, in, H);
    if (bidirectional) backwards.emplace_back(scope / i / "backward", cell, in, H);
  }
}

RecurrentStack::Result RecurrentStack::operator()(const Tensor& input, const Tensor& lengths, Context& ctx) const {
  Result result{input, {}};
  for (size_t i = 0; i < forwards.size(); ++i) {
    Tensor x = result.outputs;
    if (i > 0) x = dropout(x, ctx.dropout(p), ctx.next_random());
    const CellState zero = forwards[i].start(x.size(0), x.dtype());
    Recurrent::Result along = forwards[i](x, lengths, zero);
    if (!backwards.empty()) {
      const Recurrent::Result against = backwards[i](x, lengths, zero, true);
      along.outputs = concat({along.outputs, against.outputs}, 2);
      along.final.h = concat({along.final.h, against.final.h}, 1);
      if (along.final.c) along.final.c = concat({along.final.c, against.final.c}, 1);
    }
    result.outputs = along.outputs;
    result.finals.push_back(along.final);
  }
  return result;
}

RecurrentStack::Result RecurrentStack::operator()(const Tensor& input, const std::vector<CellState>& starts,
                                                  Context& ctx) const {
  require<ShapeError>(backwards.empty() && starts.size() == forwards.size(),
                      "[recurrent] {} states for {} layers that run forwards", starts.size(), forwards.size());
  Result result{input, {}};
  for (size_t i = 0; i < forwards.size(); ++i) {
    Tensor x = result.outputs;
    if (i > 0) x = dropout(x, ctx.dropout(p), ctx.next_random());
    const Recurrent::Result along = forwards[i](x, {}, starts[i]);
    result.outputs = along.outputs;
    result.finals.push_back(along.final);
  }
  return result;
}

}  // namespace rapt::nn
