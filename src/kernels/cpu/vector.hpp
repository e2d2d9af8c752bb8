#pragma once
// Kernels over Highway's vectors, compiled for several instruction sets and chosen when the program runs. They take f32
// and bf16, compute in f32, and need the elements of a row side by side; what they do not take is left to the reference.
// Results do not depend on the number of threads.
#include <kernels/kernels.hpp>

namespace rapt::kernels::vector {

bool supports(const UnaryForward&);
bool supports(const UnaryBackward&);
bool supports(const BinaryForward&);
bool supports(const Affine&);
bool supports(const Reduce&);
bool supports(const Dropout&);
bool supports(const SwigluForward&);
bool supports(const SwigluBackward&);
bool supports(const Rotary&);
bool supports(const EmbeddingForward&);
bool supports(const EmbeddingBackward&);
bool supports(const NormForward&);
bool supports(const NormBackward&);
bool supports(const SoftmaxForward&);
bool supports(const SoftmaxBackward&);
bool supports(const CrossEntropy&);
bool supports(const GatherRows&);
bool supports(const AdditiveScores&);
bool supports(const AdditiveScoresBackward&);
bool supports(const CellForward&);
bool supports(const CellBackward&);
bool supports(const SumSquares&);
bool supports(const Adam&);
bool supports(const Sgd&);

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
void run(const AdditiveScores&);
void run(const AdditiveScoresBackward&);
void run(const CellForward&);
void run(const CellBackward&);
void run(const SumSquares&);
void run(const Adam&);
void run(const Sgd&);

}  // namespace rapt::kernels::vector
