#include <kernels/reference/access.hpp>
#include <kernels/reference/reference.hpp>

#include <cmath>
#include <numeric>

namespace rapt::kernels::reference {

void run(const NormForward& op) {
  const int64_t N = op.x.size(0), D = op.x.size(1);
  const Row gain = read_all(op.gain), bias = op.bias ? read_all(op.bias) : Row(size_t(D));
  for (int64_t n = 0; n < N; ++n) {
    Row s = read_row(op.x, n);
    if (op.residual) {
      const Row r = read_row(op.residual, n);
      for (int64_t d = 0; d < D; ++d) s[size_t(d)] += r[size_t(d)] * dropout_factor(op.random, op.p, n * D + d);
      write_row(op.sum, n, s);
    }
    const double mean = op.kind == NormKind::layer ? std::accumulate(s.begin(), s.end(), 0.0) / double(D) : 0;
    double variance = 0;
    for (double v : s) variance += (v - mean) * (v - mean) / double(D);
    const double rstd = 1 / std::sqrt(variance + op.eps);
    for (size_t d = 0; d < s.size(); ++d) s[d] = (s[d] - mean) * rstd * gain[d] + bias[d];
    write_row(op.y, n, s);
    if (op.kind == NormKind::layer) store(op.mean, n, 1, 1, &mean);
    store(op.rstd, n, 1, 1, &rstd);
  }
}

/// With xhat = (s - mean) rstd and g = dy gain:  ds = rstd (g - mean(g) - xhat mean(g xhat)); rms lacks mean(g).
void run(const NormBackward& op) {
  const int64_t N = op.sum.size(0), D = op.sum.size(1);
  const bool layer = op.kind == NormKind::layer;
  const Row gain = read_all(op.gain), rstds = read_all(op.rstd), means = layer ? read_all(op.mean) : Row(size_t(N));
  Row dgain(static_cast<size_t>(D)), dbias(static_cast<size_t>(D));
  for (int64_t n = 0; n < N; ++n) {
    const double mean = means[size_t(n)], rstd = rstds[size_t(n)];
    Row xhat = read_row(op.sum, n);
    const Row dy = read_row(op.dy, n);
    double g_mean = 0, gx_mean = 0;
    for (size_t d = 0; d < xhat.size(); ++d) {
      xhat[d] = (xhat[d] - mean) * rstd;
      dgain[d] += dy[d] * xhat[d];
      dbias[d] += dy[d];
      g_mean += dy[d] * gain[d] / double(D);
      gx_mean += dy[d] * gain[d] * xhat[d] / double(D);
    }
    if (!layer) g_mean = 0;
    Row ds = op.dsum ? read_row(op.dsum, n) : Row(size_t(D));
    for (size_t d = 0; d < ds.size(); ++d) ds[d] += rstd * (dy[d] * gain[d] - g_mean - xhat[d] * gx_mean);
    if (op.dx) write_row(op.dx, n, ds, op.accumulate_dx);
    if (op.dresidual) {
      for (int64_t d = 0; d < D; ++d) ds[size_t(d)] *= dropout_factor(op.random, op.p, n * D + d);
      write_row(op.dresidual, n, ds, op.accumulate_dresidual);
    }
  }
  if (op.dgain) write_all(op.dgain, dgain, op.accumulate_dgain);
  if (op.dbias) write_all(op.dbias, dbias, op.accumulate_dbias);
}

}  // namespace rapt::kernels::reference
