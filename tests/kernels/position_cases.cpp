#include <kernels/cases.hpp>

namespace rapt::testing {

using namespace kernels;

namespace {

Operation dropout() {
  std::vector<Case<Dropout>> cases;
  for (const float p : {0.0f, 0.1f, 0.5f})
    for (const Shape& shape : {Shape{0}, Shape{1}, Shape{15}, Shape{127}, Shape{128}, Shape{129}, Shape{1000},
                               Shape{3, 65}, Shape{2, 3, 171}})
      for (const bool accumulate : {false, true})
        cases.push_back(
            {std::to_string(p) + label(shape) + on(accumulate, "accumulate"), [=](Workspace& w) {
               const Tensor x = w.input(shape);
               return Dropout{x, w.output("y", shape, {.accumulate = accumulate}), p, w.random(), accumulate};
             }});
  return operation(cases);
}

Operation swiglu_forward() {
  std::vector<Case<SwigluForward>> cases;
  for (const int64_t n : {0, 1, 5})
    for (const int64_t d : kWidths)
      cases.push_back({label({n, d}), [=](Workspace& w) {
                         const Tensor x = w.input({n, 2 * d}, {.scale = 2});
                         return SwigluForward{x, w.output("y", {n, d})};
                       }});
  return operation(cases);
}

Operation swiglu_backward() {
  std::vector<Case<SwigluBackward>> cases;
  for (const int64_t n : {0, 1, 5})
    for (const int64_t d : kWidths)
      for (const bool accumulate : {false, true})
        cases.push_back(
            {label({n, d}) + on(accumulate, "accumulate"), [=](Workspace& w) {
               const Tensor x = w.input({n, 2 * d}, {.scale = 2}), dy = w.input({n, d});
               return SwigluBackward{x, dy, w.output("dx", {n, 2 * d}, {.accumulate = accumulate}), accumulate};
             }});
  return operation(cases);
}

Operation rotary() {
  std::vector<Case<Rotary>> cases;
  for (const int64_t d : {2, 6, 16, 34, 64, 128})
    for (const int64_t length : {0, 1, 5})
      for (const bool interleaved : {false, true})
        for (const bool inverse : {false, true})
          cases.push_back(
              {label({length, d}) + on(interleaved, "interleaved") + on(inverse, "inverse"), [=](Workspace& w) {
                 const Shape shape = {2, length, 3, d};
                 const Tensor x = w.input(shape, {.freedom = Freedom::rows});
                 const TensorOptions to{.freedom = Freedom::rows, .accumulate = inverse};
                 return Rotary{x, w.output("y", shape, to), 10000, inverse ? 300 : 0, inverse, inverse, interleaved};
               }});
  return operation(cases);
}

}  // namespace

std::vector<Operation> position_operations() { return {dropout(), swiglu_forward(), swiglu_backward(), rotary()}; }

}  // namespace rapt::testing
