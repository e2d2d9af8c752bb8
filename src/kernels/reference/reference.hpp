#pragma once
// The executable specification: every operation as its formula in kernels.hpp says it, for all dtypes and strides.
#include <kernels/kernels.hpp>

namespace rapt::kernels::reference {

void run(const Gemm&);
void run(const UnaryForward&);
void run(const UnaryBackward&);
void run(const BinaryForward&);
void run(const Affine&);
void run(const Reduce&);
void run(const Dropout&);
void run(const SwigluForward&);
void run(const SwigluBackward&);
void run(const Rotary&);
void run(const EmbeddingForward&);
void run(const EmbeddingBackward&);
void run(const NormForward&);
void run(const NormBackward&);
void run(const SoftmaxForward&);
void run(const SoftmaxBackward&);
void run(const CrossEntropy&);
void run(const GatherRows&);
void run(const AttentionForward&);
void run(const AttentionBackward&);
void run(const AdditiveScores&);
void run(const AdditiveScoresBackward&);
void run(const CellForward&);
void run(const CellBackward&);
void run(const SumSquares&);
void run(const Adam&);
void run(const Sgd&);

template <class Args>
bool supports(const Args&) {
  return true;
}

}  // namespace rapt::kernels::reference
