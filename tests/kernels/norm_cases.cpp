#include <kernels/cases.hpp>

namespace rapt::testing {

using namespace kernels;

namespace {

struct NormShape {
  NormKind kind;
  int64_t n, d;
};

std::vector<NormShape> norm_shapes() {
  std::vector<NormShape> list;
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    for (const int64_t d : kWidths) list.push_back({kind, 5, d});
    for (const int64_t n : {0, 1, 33}) list.push_back({kind, n, 65});
  }
  return list;
}

std::string describe(const NormShape& s) {
  return std::string(s.kind == NormKind::layer ? "layer " : "rms ") + label(Shape{s.n, s.d});
}

NormForward forward(Workspace& w, const NormShape& s, bool residual, float p, double shift) {
  NormForward op;
  op.kind = s.kind;
  op.x = w.input({s.n, s.d}, {.shift = shift});
  if (residual) {
    op.residual = w.input({s.n, s.d});
    op.sum = w.output("sum", {s.n, s.d});
  }
  op.gain = w.input({s.d}, {.dtype = w.master(), .shift = 1});
  if (residual) op.bias = w.input({s.d}, {.dtype = w.master()});
  op.y = w.output("y", {s.n, s.d});
  // Statistics may be those of the sum before or after it is rounded for storage.
  const TensorOptions statistic{.dtype = w.master(), .precision = w.dtype()};
  if (s.kind == NormKind::layer) op.mean = w.output("mean", {s.n}, statistic);
  op.rstd = w.output("rstd", {s.n}, statistic);
  op.p = p;
  op.random = w.random();
  return op;
}

Operation norm_forward() {
  std::vector<Case<NormForward>> cases;
  for (const NormShape& s : norm_shapes()) {
    cases.push_back({describe(s), [=](Workspace& w) { return forward(w, s, false, 0, 0.5); }});
    cases.push_back({describe(s) + " residual", [=](Workspace& w) { return forward(w, s, true, 0, 0.5); }});
    cases.push_back({describe(s) + " residual dropout", [=](Workspace& w) { return forward(w, s, true, 0.25f, 0.5); }});
  }
  // A mean far above the deviation: the square of the mean may not swallow the variance.
  for (const int64_t d : {17, 64, 257})
    cases.push_back({"far from zero " + std::to_string(d),
                     [=](Workspace& w) {
                       return forward(w, {NormKind::layer, 5, d}, false, 0, 30);
                     },
                     3});
  return operation(cases);
}

struct Wanted {
  bool dx, dresidual, dgain, dbias, dsum, accumulate;
  float p;
};

NormBackward backward(Workspace& w, const NormShape& s, const Wanted& wanted) {
  NormBackward op;
  op.kind = s.kind;
  op.sum = w.input({s.n, s.d});
  op.gain = w.input({s.d}, {.dtype = w.master(), .shift = 1});
  if (s.kind == NormKind::layer) op.mean = w.input({s.n}, {.dtype = w.master(), .scale = 0.2});
  op.rstd = w.input({s.n}, {.dtype = w.master()});
  map_values(op.rstd, [](double v) { return std::fabs(v) + 0.5; });
  op.dy = w.input({s.n, s.d});
  if (wanted.dsum) op.dsum = w.input({s.n, s.d});
  const TensorOptions own{.accumulate = wanted.accumulate};
  const TensorOptions master{.accumulate = wanted.accumulate, .dtype = w.master()};
  if (wanted.dx) op.dx = w.output("dx", {s.n, s.d}, own);
  if (wanted.dresidual) op.dresidual = w.output("dresidual", {s.n, s.d}, own);
  if (wanted.dgain) op.dgain = w.output("dgain", {s.d}, master);
  if (wanted.dbias) op.dbias = w.output("dbias", {s.d}, master);
  op.accumulate_dx = op.accumulate_dresidual = op.accumulate_dgain = op.accumulate_dbias = wanted.accumulate;
  op.p = wanted.p;
  op.random = w.random();
  return op;
}

Operation norm_backward() {
  const std::vector<Wanted> all = {
      {true, true, true, true, true, false, 0.25f},   {true, true, true, true, true, true, 0},
      {true, false, true, true, false, false, 0},     {true, false, true, false, false, true, 0},
      {false, true, false, false, true, false, 0.5f}, {false, false, true, true, false, false, 0}};
  std::vector<Case<NormBackward>> cases;
  for (const NormShape& s : norm_shapes())
    for (size_t i = 0; i < all.size(); ++i)
      cases.push_back({describe(s) + " wanted " + std::to_string(i),
                       [=, wanted = all[i]](Workspace& w) { return backward(w, s, wanted); },
                       s.d == 1 ? 8.0 : 1.0});  // dgain is then one sum, whose terms may nearly cancel
  return operation(cases);
}

}  // namespace

std::vector<Operation> norm_operations() { return {norm_forward(), norm_backward()}; }

}  // namespace rapt::testing
