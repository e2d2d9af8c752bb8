#include <kernels/cases.hpp>

namespace rapt::testing {

using namespace kernels;

namespace {

constexpr TensorOptions kAny{.freedom = Freedom::any};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list = {{},      {1},      {17},      {1000},        {0, 5},      {1, 1},
                                          {3, 15}, {64, 64}, {65, 129}, {2, 3, 1, 31}, {3, 2, 4, 5}};
  return list;
}

constexpr Unary kUnaries[] = {Unary::neg,  Unary::exp,       Unary::log,  Unary::sqrt, Unary::square,  Unary::relu,
                              Unary::gelu, Unary::gelu_tanh, Unary::silu, Unary::tanh, Unary::sigmoid, Unary::softplus};

/// Inputs inside the domain of f.
Tensor argument(Workspace& w, Unary f, const Shape& shape) {
  TensorOptions options = kAny;
  options.scale = 2;
  const Tensor x = w.input(shape, options);
  if (f == Unary::log || f == Unary::sqrt) map_values(x, [](double v) { return std::fabs(v) + 0.125; });
  return x;
}

/// Where careless formulas overflow: both tails, and zero with its sign.
Tensor extreme_argument(Workspace& w, Unary f) {
  const std::vector<double> values = {0.0, -0.0, 1e-6, -1e-6, 8, -8, 20, -20, 60, -60, 85, -85, 1e4, -1e4};
  const Tensor x = w.input({3, int64_t(values.size())}, kAny);
  const bool positive = f == Unary::log || f == Unary::sqrt;
  set_values(x, [&](int64_t n) {
    const double v = values[size_t(n) % values.size()];
    if (f == Unary::exp) return std::fmin(v, 80);
    return positive ? std::fabs(v) + 1e-3 : v;
  });
  return x;
}

Operation unary_forward() {
  std::vector<Case<UnaryForward>> cases;
  for (const Unary f : kUnaries) {
    const std::string name = "f" + std::to_string(int(f));
    for (const Shape& shape : shapes())
      cases.push_back({name + " " + label(shape), [=](Workspace& w) {
                         return UnaryForward{f, argument(w, f, shape), w.output("y", shape, kAny)};
                       }});
    cases.push_back({name + " extremes", [=](Workspace& w) {
                       const Tensor x = extreme_argument(w, f);
                       return UnaryForward{f, x, w.output("y", x.shape(), kAny)};
                     }});
  }
  return operation(cases);
}

Operation unary_backward() {
  std::vector<Case<UnaryBackward>> cases;
  for (const Unary f : kUnaries)
    for (const bool accumulate : {false, true}) {
      const std::string name = "f" + std::to_string(int(f)) + on(accumulate, "accumulate");
      TensorOptions to = kAny;
      to.accumulate = accumulate;
      for (const Shape& shape : shapes())
        cases.push_back({name + " " + label(shape), [=](Workspace& w) {
                           const Tensor x = argument(w, f, shape), dy = w.input(shape, kAny);
                           return UnaryBackward{f, x, dy, w.output("dx", shape, to), accumulate};
                         }});
      cases.push_back({name + " extremes", [=](Workspace& w) {
                         const Tensor x = extreme_argument(w, f), dy = w.input(x.shape(), kAny);
                         return UnaryBackward{f, x, dy, w.output("dx", x.shape(), to), accumulate};
                       }});
    }
  return operation(cases);
}

struct Broadcast {
  Shape a, b, y;
};

Operation binary() {
  std::vector<Case<BinaryForward>> cases;
  std::vector<Broadcast> broadcasts;
  for (const Shape& shape : shapes()) broadcasts.push_back({shape, shape, shape});
  for (const int64_t d : kWidths) {
    broadcasts.push_back({{5, d}, {1, d}, {5, d}});
    broadcasts.push_back({{5, 1}, {5, d}, {5, d}});
    broadcasts.push_back({{1, 1}, {5, d}, {5, d}});
    broadcasts.push_back({{2, 1, d}, {1, 3, 1}, {2, 3, d}});
  }
  for (const Binary f : {Binary::add, Binary::sub, Binary::mul, Binary::div})
    for (const auto& [a_shape, b_shape, y_shape] : broadcasts)
      for (const bool accumulate : {false, true})
        for (const bool mixed : {false, true}) {
          const Shape a = a_shape, b = b_shape, y = y_shape;
          cases.push_back(
              {"f" + std::to_string(int(f)) + label(a) + label(b) + on(accumulate, "accumulate") + on(mixed, "mixed"),
               [=](Workspace& w) {
                 BinaryForward op{f, w.input(a, kAny), {}, {}, accumulate ? -0.75 : 1.0, accumulate};
                 TensorOptions b_options = kAny, y_options = kAny;
                 b_options.dtype = mixed ? w.master() : w.dtype();
                 y_options.accumulate = accumulate;
                 op.b = w.input(b, b_options);
                 map_values(op.b, [](double v) { return v < 0 ? v - 0.5 : v + 0.5; });
                 op.y = w.output("y", y, y_options);
                 return op;
               }});
        }
  return operation(cases);
}

Operation affine() {
  std::vector<Case<Affine>> cases;
  const auto add = [&](const std::string& name, const Shape& shape, auto from, auto to, bool accumulate) {
    cases.push_back({name + " " + label(shape) + on(accumulate, "accumulate"), [=](Workspace& w) {
                       TensorOptions x = kAny, y = kAny;
                       x.dtype = from(w);
                       x.scale = 4;
                       y.dtype = to(w);
                       y.accumulate = accumulate;
                       const Tensor source = w.input(shape, x);
                       return Affine{source, w.output("y", shape, y), 0.5, 0.25, accumulate};
                     }});
  };
  const auto own = [](Workspace& w) { return w.dtype(); };
  const auto master = [](Workspace& w) { return w.master(); };
  const auto half = [](Workspace&) { return DType::f16; };
  const auto integer = [](Workspace&) { return DType::i32; };
  for (const Shape& shape : shapes())
    for (const bool accumulate : {false, true}) {
      add("own to own", shape, own, own, accumulate);
      add("own to master", shape, own, master, accumulate);
      add("master to own", shape, master, own, accumulate);
    }
  add("f16 to own", {3, 65}, half, own, false);
  add("own to f16", {3, 65}, own, half, false);
  add("i32 to own", {3, 65}, integer, own, false);
  return operation(cases);
}

Operation reduce() {
  std::vector<Case<Reduce>> cases;
  std::vector<std::pair<Shape, Shape>> pairs = {{{17}, {1}}, {{1000}, {1}}, {{0, 5}, {1, 5}}, {{5, 0}, {5, 1}}};
  for (const int64_t d : kWidths) {
    pairs.insert(pairs.end(), {{{33, d}, {1, d}}, {{33, d}, {33, 1}}, {{33, d}, {1, 1}}, {{33, d}, {33, d}}});
    pairs.insert(pairs.end(), {{{3, 5, d}, {3, 1, d}}, {{3, 5, d}, {1, 5, 1}}, {{2, 3, 2, d}, {1, 3, 1, d}}});
  }
  for (const auto& pair : pairs)
    for (const bool accumulate : {false, true}) {
      const Shape from = pair.first, to = pair.second;
      cases.push_back({label(from) + label(to) + on(accumulate, "accumulate"), [=](Workspace& w) {
                         // A mean away from 0: a sum that cancels would say nothing about the kernel.
                         const Tensor x = w.input(from, {.freedom = Freedom::any, .shift = 0.5});
                         return Reduce{x, w.output("y", to, {.freedom = Freedom::any, .accumulate = accumulate}),
                                       accumulate ? 0.25 : 1.0, accumulate};
                       }});
    }
  return operation(cases);
}

}  // namespace

std::vector<Operation> elementwise_operations() {
  return {unary_forward(), unary_backward(), binary(), affine(), reduce()};
}

}  // namespace rapt::testing
