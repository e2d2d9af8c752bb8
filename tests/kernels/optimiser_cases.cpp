#include <kernels/cases.hpp>

#include <limits>

namespace rapt::testing {

using namespace kernels;

namespace {

constexpr int64_t kLengths[] = {0, 1, 3, 15, 16, 17, 33, 65, 129, 1000, 5001};

Operation sum_squares() {
  std::vector<Case<SumSquares>> cases;
  for (const int64_t n : kLengths)
    cases.push_back({std::to_string(n), [=](Workspace& w) {
                       const Tensor x = w.input({n});
                       return SumSquares{x, w.output("y", {1}, {.dtype = DType::f64})};
                     }});
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    cases.push_back({"with " + std::to_string(bad), [=](Workspace& w) {
                       const Tensor x = w.input({129});
                       x.narrow(0, 127, 1).fill(bad);
                       return SumSquares{x, w.output("y", {1}, {.dtype = DType::f64})};
                     }});
  return operation(cases);
}

Operation adam() {
  std::vector<Case<Adam>> cases;
  for (const int64_t n : kLengths)
    for (const bool decoupled : {false, true})
      cases.push_back({std::to_string(n) + on(decoupled, "decoupled"), [=](Workspace& w) {
                         const TensorOptions state{.accumulate = true, .dtype = w.master()};
                         Adam op;
                         op.w = w.output("w", {n}, state);
                         op.g = w.input({n}, {.dtype = w.master()});
                         op.m = w.output("m", {n}, state);
                         op.v = w.output("v", {n}, state);
                         map_values(op.v, [](double v) { return v * v + 0.01; });
                         op.lr = 0.01, op.beta1 = 0.9, op.beta2 = 0.98, op.eps = 1e-8, op.decay = 0.1;
                         op.correction1 = 1 - 0.9 * 0.9, op.correction2 = 1 - 0.98 * 0.98;
                         op.clip = 0.5;
                         op.decoupled = decoupled;
                         return op;
                       }});
  return operation(cases);
}

Operation sgd() {
  std::vector<Case<Sgd>> cases;
  for (const int64_t n : kLengths)
    for (const double momentum : {0.0, 0.9})
      for (const bool nesterov : {false, true}) {
        if (nesterov && momentum == 0) continue;
        cases.push_back(
            {std::to_string(n) + on(momentum > 0, "momentum") + on(nesterov, "nesterov"), [=](Workspace& w) {
               const TensorOptions state{.accumulate = true, .dtype = w.master()};
               Sgd op;
               op.w = w.output("w", {n}, state);
               op.g = w.input({n}, {.dtype = w.master()});
               if (momentum > 0) op.v = w.output("v", {n}, state);
               op.lr = 0.1, op.momentum = momentum, op.decay = 0.05;
               op.clip = 0.5;
               op.nesterov = nesterov;
               return op;
             }});
      }
  return operation(cases);
}

}  // namespace

std::vector<Operation> optimiser_operations() { return {sum_squares(), adam(), sgd()}; }

}  // namespace rapt::testing
