// The table: which implementations each operation has, best first, the reference last.
#include <kernels/cpu/attention.hpp>
#include <kernels/cpu/gemm.hpp>
#include <kernels/cpu/vector.hpp>
#include <kernels/dispatch.hpp>
#include <kernels/reference/reference.hpp>

namespace rapt::kernels {
namespace {

bool always() { return true; }

template <class Args>
constexpr Implementation<Args> kReference{"reference", always, reference::supports<Args>, reference::run};
template <class Args>
constexpr Implementation<Args> kVector{"vector", always, vector::supports, vector::run};

}  // namespace

template <class Args>
void launch(const Args& args) {
  detail::timed_launch(args);
}
template <class Args>
const Implementation<Args>& chosen(const Args& args) {
  return detail::choose(args);
}

#define RAPT_OPERATION(Args, ...)                                        \
  template <>                                                            \
  const std::vector<Implementation<Args>>& implementations() {           \
    static const std::vector<Implementation<Args>> list = {__VA_ARGS__}; \
    return list;                                                         \
  }                                                                      \
  template void launch<Args>(const Args&);                               \
  template const Implementation<Args>& chosen<Args>(const Args&);

RAPT_OPERATION(Gemm, cpu::kGemmAmxBf16, cpu::kGemmAvx512Bf16, cpu::kGemmAmxInt8, cpu::kGemmAvx512Vnni,
               cpu::kGemmAvx512F32, cpu::kGemmAvx2F32, cpu::kGemmPortable, kReference<Gemm>)
RAPT_OPERATION(UnaryForward, kVector<UnaryForward>, kReference<UnaryForward>)
RAPT_OPERATION(UnaryBackward, kVector<UnaryBackward>, kReference<UnaryBackward>)
RAPT_OPERATION(BinaryForward, kVector<BinaryForward>, kReference<BinaryForward>)
RAPT_OPERATION(Affine, kVector<Affine>, kReference<Affine>)
RAPT_OPERATION(Reduce, kVector<Reduce>, kReference<Reduce>)
RAPT_OPERATION(Dropout, kVector<Dropout>, kReference<Dropout>)
RAPT_OPERATION(SwigluForward, kVector<SwigluForward>, kReference<SwigluForward>)
RAPT_OPERATION(SwigluBackward, kVector<SwigluBackward>, kReference<SwigluBackward>)
RAPT_OPERATION(Rotary, kVector<Rotary>, kReference<Rotary>)
RAPT_OPERATION(EmbeddingForward, kVector<EmbeddingForward>, kReference<EmbeddingForward>)
RAPT_OPERATION(EmbeddingBackward, kVector<EmbeddingBackward>, kReference<EmbeddingBackward>)
RAPT_OPERATION(NormForward, kVector<NormForward>, kReference<NormForward>)
RAPT_OPERATION(NormBackward, kVector<NormBackward>, kReference<NormBackward>)
RAPT_OPERATION(SoftmaxForward, kVector<SoftmaxForward>, kReference<SoftmaxForward>)
RAPT_OPERATION(SoftmaxBackward, kVector<SoftmaxBackward>, kReference<SoftmaxBackward>)
RAPT_OPERATION(CrossEntropy, kVector<CrossEntropy>, kReference<CrossEntropy>)
RAPT_OPERATION(GatherRows, kVector<GatherRows>, kReference<GatherRows>)
RAPT_OPERATION(AttentionForward, cpu::kAttentionForwardAmx, cpu::kAttentionForwardBf16, cpu::kAttentionForwardVector,
               kReference<AttentionForward>)
RAPT_OPERATION(AttentionBackward, cpu::kAttentionBackwardAmx, cpu::kAttentionBackwardBf16,
               cpu::kAttentionBackwardVector, kReference<AttentionBackward>)
RAPT_OPERATION(AdditiveScores, kVector<AdditiveScores>, kReference<AdditiveScores>)
RAPT_OPERATION(AdditiveScoresBackward, kVector<AdditiveScoresBackward>, kReference<AdditiveScoresBackward>)
RAPT_OPERATION(CellForward, kVector<CellForward>, kReference<CellForward>)
RAPT_OPERATION(CellBackward, kVector<CellBackward>, kReference<CellBackward>)
RAPT_OPERATION(SumSquares, kVector<SumSquares>, kReference<SumSquares>)
RAPT_OPERATION(Adam, kVector<Adam>, kReference<Adam>)
RAPT_OPERATION(Sgd, kVector<Sgd>, kReference<Sgd>)

namespace {

/// The rows of the support matrix.
template <class... Args>
struct Operations {
  static std::vector<TableRow> rows() {
    std::vector<TableRow> table;
    (table.push_back(row<Args>()), ...);
    return table;
  }
  template <class A>
  static TableRow row() {
    TableRow r{A::op, {}};
    for (const auto& i : implementations<A>()) r.implementations.push_back({i.name, i.available()});
    return r;
  }
};
using All = Operations<Gemm, UnaryForward, UnaryBackward, BinaryForward, Affine, Reduce, Dropout, SwigluForward,
                       SwigluBackward, Rotary, EmbeddingForward, EmbeddingBackward, NormForward, NormBackward,
                       SoftmaxForward, SoftmaxBackward, CrossEntropy, GatherRows, AttentionForward, AttentionBackward,
                       AdditiveScores, AdditiveScoresBackward, CellForward, CellBackward, SumSquares, Adam, Sgd>;

}  // namespace

std::vector<TableRow> kernel_table() { return All::rows(); }

}  // namespace rapt::kernels
