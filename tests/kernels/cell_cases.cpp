#include <kernels/cases.hpp>

namespace rapt::testing {

using namespace kernels;

namespace {

struct CellShape {
  Cell cell;
  int64_t batch, hidden;
  bool lengths;
  int64_t gates() const { return hidden * (cell == Cell::rnn ? 1 : cell == Cell::lstm ? 4 : 3); }
};

std::vector<CellShape> cell_shapes() {
  std::vector<CellShape> list;
  for (const Cell cell : {Cell::rnn, Cell::lstm, Cell::gru})
    for (const bool lengths : {false, true}) {
      for (const int64_t hidden : kWidths) list.push_back({cell, 5, hidden, lengths});
      for (const int64_t batch : {0, 1, 17}) list.push_back({cell, batch, 33, lengths});
    }
  return list;
}

std::string describe(const CellShape& s) {
  static const char* const names[] = {"rnn ", "lstm ", "gru "};
  return names[size_t(s.cell)] + label(Shape{s.batch, s.hidden}) + on(s.lengths, "lengths");
}

constexpr int64_t kStep = 2;  // lengths are 0 to 4: some rows have ended

CellForward forward(Workspace& w, const CellShape& s) {
  CellForward op;
  op.cell = s.cell;
  op.gx = w.input({s.batch, s.gates()}, {.freedom = Freedom::rows, .scale = 1.5});
  op.gh = w.input({s.batch, s.gates()});
  op.h = w.input({s.batch, s.hidden});
  op.gates = w.output("gates", {s.batch, s.gates()});
  op.h_next = w.output("h_next", {s.batch, s.hidden});
  if (s.cell == Cell::lstm) {
    op.c = w.input({s.batch, s.hidden});
    op.c_next = w.output("c_next", {s.batch, s.hidden});
  }
  if (s.lengths) op.lengths = w.integers({s.batch}, 0, 5);
  op.step = kStep;
  return op;
}

CellBackward backward(Workspace& w, const CellShape& s, bool accumulate, bool dh_next, bool dc_next) {
  const Shape state = {s.batch, s.hidden}, gates = {s.batch, s.gates()};
  CellBackward op;
  op.cell = s.cell;
  op.gates = w.input(gates);
  map_values(op.gates, [](double v) { return std::tanh(v); });
  op.gh = w.input(gates);
  op.h = w.input(state);
  if (dh_next) op.dh_next = w.input(state);
  op.dgx = w.output("dgx", gates, {.freedom = Freedom::rows, .accumulate = accumulate});
  op.dgh = w.output("dgh", gates);
  op.dh = w.output("dh", state);
  if (s.cell == Cell::lstm) {
    op.c = w.input(state);
    op.c_next = w.input(state);
    if (dc_next) op.dc_next = w.input(state);
    op.dc = w.output("dc", state);
  }
  if (s.lengths) op.lengths = w.integers({s.batch}, 0, 5);
  op.step = kStep;
  op.accumulate_dgx = accumulate;
  return op;
}

}  // namespace

std::vector<Operation> cell_operations() {
  std::vector<Case<CellForward>> forwards;
  std::vector<Case<CellBackward>> backwards;
  for (const CellShape& s : cell_shapes()) {
    forwards.push_back({describe(s), [=](Workspace& w) { return forward(w, s); }});
    for (const bool accumulate : {false, true}) {
      const std::string name = describe(s) + on(accumulate, "accumulate");
      backwards.push_back({name, [=](Workspace& w) { return backward(w, s, accumulate, true, true); }});
      backwards.push_back({name + " dh alone", [=](Workspace& w) { return backward(w, s, accumulate, true, false); }});
      backwards.push_back({name + " dc alone", [=](Workspace& w) { return backward(w, s, accumulate, false, true); }});
    }
  }
  return {operation(forwards), operation(backwards)};
}

}  // namespace rapt::testing
