#include <kernels/cases.hpp>

namespace rapt::testing {

using namespace kernels;

namespace {

constexpr int64_t kVocabulary = 11;

Operation embedding() {
  std::vector<Case<EmbeddingForward>> cases;
  for (const int64_t n : {0, 1, 12})
    for (const int64_t d : kWidths)
      for (const bool positions : {false, true})
        cases.push_back({label({n, d}) + on(positions, "positions"), [=](Workspace& w) {
                           EmbeddingForward op;
                           op.ids = w.integers({n}, 0, kVocabulary);
                           op.weight = w.input({kVocabulary, d}, {.dtype = w.master()});
                           if (positions) op.positions = w.input({9, d}, {.dtype = w.master()});
                           op.y = w.output("y", {n, d});
                           op.length = 4;
                           op.position_offset = 5;
                           op.scale = 2.5;
                           return op;
                         }});
  return operation(cases);
}

Operation embedding_backward() {
  std::vector<Case<EmbeddingBackward>> cases;
  for (const int64_t n : {0, 1, 33})
    for (const int64_t d : kWidths)
      for (const bool accumulate : {false, true})
        for (const bool gathered : {false, true})
          cases.push_back(
              {label({n, d}) + on(accumulate, "accumulate") + on(gathered, "of gather_rows"), [=](Workspace& w) {
                 const Tensor ids = w.integers({n}, 0, kVocabulary), dy = w.input({n, d});
                 const DType dtype = gathered ? w.dtype() : w.master();
                 const TensorOptions to{.accumulate = accumulate, .dtype = dtype};
                 return EmbeddingBackward{ids, dy, w.output("dweight", {kVocabulary, d}, to), 0.5, accumulate};
               }});
  return operation(cases);
}

Operation gather_rows() {
  std::vector<Case<GatherRows>> cases;
  for (const int64_t n : {0, 1, 12})
    for (const int64_t d : kWidths)
      cases.push_back({label({n, d}), [=](Workspace& w) {
                         const Tensor x = w.input({kVocabulary, d}), ids = w.integers({n}, 0, kVocabulary);
                         return GatherRows{x, ids, w.output("y", {n, d})};
                       }});
  return operation(cases);
}

/// Columns past a row's length are NaN: they may not be used.
SoftmaxForward masked_softmax(Workspace& w, int64_t n, int64_t d) {
  SoftmaxForward op;
  op.x = w.input({n, d}, {.scale = 3});
  op.lengths = w.integers({n / 2}, 0, d + 1);
  op.repeat = 2;
  const std::vector<double> lengths = op.lengths.to_vector(), x = op.x.to_vector();
  set_values(op.x, [&](int64_t i) { return double(i % d) < lengths[size_t(i / d / 2)] ? x[size_t(i)] : std::nan(""); });
  op.y = w.output("y", {n, d});
  return op;
}

Operation softmax() {
  std::vector<Case<SoftmaxForward>> cases;
  for (const int64_t d : kWidths) {
    for (const int64_t n : {0, 1, 6})
      for (const bool log : {false, true})
        cases.push_back({label({n, d}) + on(log, "log"), [=](Workspace& w) {
                           SoftmaxForward op;
                           op.x = w.input({n, d}, {.scale = 3, .shift = 20});
                           op.y = w.output("y", {n, d});
                           op.log = log;
                           return op;
                         }});
    cases.push_back({label({6, d}) + " lengths", [=](Workspace& w) { return masked_softmax(w, 6, d); }});
  }
  return operation(cases);
}

Operation softmax_backward() {
  std::vector<Case<SoftmaxBackward>> cases;
  for (const int64_t d : kWidths)
    for (const int64_t n : {0, 1, 5})
      for (const bool log : {false, true})
        for (const bool accumulate : {false, true})
          cases.push_back(
              {label({n, d}) + on(log, "log") + on(accumulate, "accumulate"), [=](Workspace& w) {
                 const Tensor y = w.input({n, d}), dy = w.input({n, d});
                 map_values(
                     y, [&](double v) { return log ? -std::fabs(v) - std::log(double(d)) : std::fabs(v) / double(d); });
                 return SoftmaxBackward{y, dy, w.output("dx", {n, d}, {.accumulate = accumulate}), log, accumulate};
               }});
  return operation(cases);
}

enum class Gradient { none, separate, in_place };

CrossEntropy cross_entropy_call(Workspace& w, int64_t n, int64_t v, Gradient gradient, double smoothing) {
  CrossEntropy op;
  // An output with given contents is what an in-place argument is.
  if (gradient == Gradient::in_place)
    op.logits = op.dlogits = w.output("dlogits", {n, v}, {.accumulate = true, .scale = 3});
  else
    op.logits = w.input({n, v}, {.scale = 3});
  if (gradient == Gradient::separate) op.dlogits = w.output("dlogits", {n, v});
  op.targets = w.integers({n}, 0, v);
  set_values(op.targets,
             [targets = op.targets.to_vector()](int64_t i) { return i % 3 == 1 ? -1.0 : targets[size_t(i)]; });
  op.loss = w.output("loss", {n}, {.dtype = w.master()});
  if (smoothing > 0) op.hits = w.output("hits", {n}, {.dtype = DType::i32});
  op.smoothing = smoothing;
  op.scale = 1.0 / 7;
  return op;
}

Operation cross_entropy() {
  std::vector<Case<CrossEntropy>> cases;
  for (const int64_t v : {1, 2, 15, 16, 17, 33, 64, 65, 129, 1000})
    for (const int64_t n : {0, 1, 7})
      for (const Gradient gradient : {Gradient::none, Gradient::separate, Gradient::in_place})
        for (const double smoothing : {0.0, 0.1})
          cases.push_back({label({n, v}) + " gradient " + std::to_string(int(gradient)) + on(smoothing > 0, "smooth"),
                           [=](Workspace& w) { return cross_entropy_call(w, n, v, gradient, smoothing); }});
  return operation(cases);
}

}  // namespace

std::vector<Operation> row_operations() {
  return {embedding(), embedding_backward(), gather_rows(), softmax(), softmax_backward(), cross_entropy()};
}

}  // namespace rapt::testing
