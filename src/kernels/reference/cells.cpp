#include <kernels/reference/access.hpp>
#include <kernels/reference/reference.hpp>

#include <cmath>

namespace rapt::kernels::reference {
namespace {

double sigmoid(double x) { return apply(Unary::sigmoid, x); }
/// Derivatives from the activated value.
double d_sigmoid(double s) { return s * (1 - s); }
double d_tanh(double t) { return 1 - t * t; }

bool ended(const Tensor& lengths, int64_t step, int64_t b) { return lengths && step >= integers(lengths)[b]; }

/// Optional input: row b, or zeros.
Row row_or_zeros(const Tensor& t, int64_t b, size_t size) { return t ? read_row(t, b) : Row(size); }

}  // namespace

void run(const CellForward& op) {
  const auto H = size_t(op.h.size(1));
  for (int64_t b = 0; b < op.h.size(0); ++b) {
    Row h = read_row(op.h, b), c = row_or_zeros(op.c, b, H);
    if (!ended(op.lengths, op.step, b)) {
      Row gates = read_row(op.gx, b);
      const Row gh = read_row(op.gh, b);
      for (size_t i = 0; i < H; ++i) {
        if (op.cell == Cell::rnn) {
          h[i] = gates[i] = std::tanh(gates[i] + gh[i]);
        } else if (op.cell == Cell::lstm) {
          double &in = gates[i], &forget = gates[H + i], &cell = gates[2 * H + i], &out = gates[3 * H + i];
          in = sigmoid(in + gh[i]);
          forget = sigmoid(forget + gh[H + i]);
          cell = std::tanh(cell + gh[2 * H + i]);
          out = sigmoid(out + gh[3 * H + i]);
          c[i] = forget * c[i] + in * cell;
          h[i] = out * std::tanh(c[i]);
        } else {
          double &r = gates[i], &z = gates[H + i], &n = gates[2 * H + i];
          r = sigmoid(r + gh[i]);
          z = sigmoid(z + gh[H + i]);
          n = std::tanh(n + r * gh[2 * H + i]);
          h[i] = (1 - z) * n + z * h[i];
        }
      }
      write_row(op.gates, b, gates);
    }
    write_row(op.h_next, b, h);
    if (op.cell == Cell::lstm) write_row(op.c_next, b, c);
  }
}

void run(const CellBackward& op) {
  const auto H = size_t(op.h.size(1)), G = size_t(op.gates.size(1));
  for (int64_t b = 0; b < op.h.size(0); ++b) {
    Row dh = row_or_zeros(op.dh_next, b, H), dc = row_or_zeros(op.dc_next, b, H);
    Row dgx(G), dgh(G);
    if (!ended(op.lengths, op.step, b)) {
      const Row gates = read_row(op.gates, b), gh = read_row(op.gh, b), h = read_row(op.h, b);
      const Row c = row_or_zeros(op.c, b, H), c_next = row_or_zeros(op.c_next, b, H);
      for (size_t i = 0; i < H; ++i) {
        if (op.cell == Cell::rnn) {
          dgx[i] = dh[i] * d_tanh(gates[i]);
          dh[i] = 0;
        } else if (op.cell == Cell::lstm) {
          const double in = gates[i], forget = gates[H + i], cell = gates[2 * H + i], out = gates[3 * H + i];
          const double t = std::tanh(c_next[i]);
          dc[i] += dh[i] * out * d_tanh(t);
          dgx[i] = dc[i] * cell * d_sigmoid(in);
          dgx[H + i] = dc[i] * c[i] * d_sigmoid(forget);
          dgx[2 * H + i] = dc[i] * in * d_tanh(cell);
          dgx[3 * H + i] = dh[i] * t * d_sigmoid(out);
          dc[i] *= forget;
          dh[i] = 0;
        } else {
          const double r = gates[i], z = gates[H + i], n = gates[2 * H + i];
          const double dn = dh[i] * (1 - z) * d_tanh(n);
          dgx[i] = dn * gh[2 * H + i] * d_sigmoid(r);
          dgx[H + i] = dh[i] * (h[i] - n) * d_sigmoid(z);
          dgx[2 * H + i] = dn;
          dgh[2 * H + i] = dn * r;
          dh[i] *= z;
        }
      }
      for (size_t i = 0; i < (op.cell == Cell::gru ? 2 * H : G); ++i) dgh[i] = dgx[i];
    }
    write_row(op.dgx, b, dgx, op.accumulate_dgx);
    write_row(op.dgh, b, dgh);
    write_row(op.dh, b, dh);
    if (op.cell == Cell::lstm) write_row(op.dc, b, dc);
  }
}

}  // namespace rapt::kernels::reference
