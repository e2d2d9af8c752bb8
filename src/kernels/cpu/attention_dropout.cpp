#include <kernels/cpu/attention_problem.hpp>

#include <bit>
#include <cstring>

namespace rapt::kernels::cpu::attention {
namespace {

uint64_t load(const uint8_t* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// Bit c of word r changes places with bit r of word c: blocks of half the size are swapped, then of a quarter, ...
void transpose_bits(uint64_t (&words)[64]) {
  uint64_t mask = 0x00000000FFFFFFFFull;
  for (int half = 32; half > 0; half /= 2, mask ^= mask << half)
    for (int r = 0; r < 64; r = ((r | half) + 1) & ~half) {
      const uint64_t swap = (words[r] >> half ^ words[r | half]) & mask;
      words[r] ^= swap << half;
      words[r | half] ^= swap;
    }
}

}  // namespace

/// Copies kMaxColumns bits from bit `bit` of the raw blocks on.
void KeepBits::extract(uint64_t bit, int row) {
  static_assert(std::endian::native == std::endian::little);
  const uint8_t* from = raw_ + bit / 8;
  const int shift = int(bit % 8);
  for (int half = 0; half < 2; ++half, from += 8) {
    uint64_t word = load(from) >> shift;
    if (shift) word |= uint64_t(from[8]) << (64 - shift);
    std::memcpy(rows_ + row * kKeepBytes + 8 * half, &word, sizeof word);
  }
}

const uint8_t* KeepBits::rows(const Problem& p, int64_t b, int64_t head, int64_t i, int rows, int64_t j, int columns) {
  const Common& c = common(p.bf16);
  const auto index = [&](int row) {
    return uint64_t(((b * p.heads + head) * p.query_length + i + row) * p.key_length + j);
  };
  const auto draw = [&](uint64_t first, uint64_t last) {
    c.dropout(p.random, first / 128, int(last / 128 - first / 128 + 1), p.drop_below, raw_);
  };
  // Short rows follow each other in the same blocks of 128, which are then drawn once for all.
  const bool together = columns == p.key_length;
  if (together) draw(index(0), index(rows - 1) + uint64_t(columns) - 1);
  for (int row = 0; row < rows; ++row) {
    if (!together) draw(index(row), index(row) + uint64_t(columns) - 1);
    extract(index(row) - index(together ? 0 : row) / 128 * 128, row);
  }
  return rows_;
}

const uint8_t* KeepBits::transposed(const Problem& p, int64_t b, int64_t head, int64_t i, int rows, int64_t j,
                                    int columns) {
  // Short rows are drawn once for all blocks of keys.
  const bool whole = p.key_length <= kMaxColumns;
  const int64_t wanted = (b * p.heads + head) * p.query_length + i;
  if (!whole || drawn_ != wanted) this->rows(p, b, head, i, rows, whole ? 0 : j, whole ? int(p.key_length) : columns);
  drawn_ = whole ? wanted : -1;
  uint64_t words[64] = {};
  for (int r = 0; r < rows; ++r) words[r] = load(rows_ + r * kKeepBytes + (whole ? j / 8 : 0));
  transpose_bits(words);
  for (int r = 0; r < columns; ++r) std::memcpy(transposed_ + r * kKeepBytes, &words[r], sizeof words[r]);
  return transposed_;
}

}  // namespace rapt::kernels::cpu::attention
