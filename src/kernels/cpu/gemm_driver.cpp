#include <base/fail.hpp>
#include <kernels/cpu/gemm_blocks.hpp>
#include <kernels/cpu/gemm_driver.hpp>
#include <kernels/cpu/pack_cache.hpp>
#include <rapt/base/threads.hpp>

#include <algorithm>
#include <cstring>
#include <optional>

namespace rapt::kernels::cpu {
namespace {

Element element_of(DType t) {
  switch (t) {
    case DType::f32: return Element::f32;
    case DType::bf16: return Element::bf16;
    case DType::i8: return Element::s8;
    case DType::i32: return Element::s32;
    default: fail<DTypeError>("[gemm] {} has no packed form", to_string(t));
  }
}

/// A as M lines, or B as N lines, of K elements each.
struct Operand {
  const std::byte* data;
  Element type;
  int64_t element_bytes;
  int64_t line_stride, depth_stride;
};

/// Sets the stride along an axis of one element, which says nothing, to 1.
Operand operand(const Tensor& t, int line_axis, int depth_axis) {
  Operand o{t.raw(), element_of(t.dtype()), int64_t(size_of(t.dtype())), t.stride(line_axis), t.stride(depth_axis)};
  if (t.size(depth_axis) == 1) o.depth_stride = 1;
  if (t.size(line_axis) == 1 && o.depth_stride != 1) o.line_stride = 1;
  return o;
}

/// C, the residual or the values before the activation, with what each tile asks of it taken out of the tensor once.
struct Result {
  std::byte* data = nullptr;
  int64_t element_bytes = 0, row_stride = 0;
};

Result result(const Tensor& t) {
  if (!t) return {};
  return {t.raw(), int64_t(size_of(t.dtype())), t.stride(-2)};
}

/// Elements from the first matrix of a batch to matrix `index`.
int64_t batch_offset(const Tensor& t, int64_t index) {
  int64_t offset = 0;
  for (int axis = t.rank() - 3; axis >= 0; --axis) {
    offset += index % t.size(axis) * t.stride(axis);
    index /= t.size(axis);
  }
  return offset;
}

/// Memory of a thread that lives from call to call.
std::byte* thread_scratch(size_t bytes) {
  thread_local std::shared_ptr<Storage> storage;
  if (!storage || storage->bytes() < bytes) {
    storage.reset();
    storage = Storage::allocate(bytes);
  }
  return storage->data();
}

/// What a kernel needs around the work of a thread, also when that work throws.
class Session {
 public:
  explicit Session(const GemmKernel& kernel) : kernel_(kernel) {
    if (kernel_.begin) kernel_.begin();
  }
  ~Session() {
    if (kernel_.end) kernel_.end();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  const GemmKernel& kernel_;
};

class Product {
 public:
  Product(const GemmKernel& kernel, const Gemm& args)
      : kernel_(kernel),
        args_(args),
        m_(args.c.size(-2)),
        n_(args.c.size(-1)),
        k_(args.a.size(-1)),
        batch_(n_ && m_ ? args.c.numel() / (m_ * n_) : 0),
        a_(operand(args.a, -2, -1)),
        b_(operand(args.b, -1, -2)),
        c_(result(args.c)),
        residual_(result(args.residual)),
        pre_(result(args.pre_activation)),
        bias_(args.bias ? args.bias.data<float>() : nullptr),
        c_type_(element_of(args.c.dtype())),
        plain_(!args.bias && !args.residual && !args.pre_activation && args.activation == Activation::none),
        blocks_(choose_blocks(kernel, m_, n_, k_, batch_, c_type_ != Element::bf16)),
        panels_(divide_up(n_, kernel.nr)),
        keeps_sums_(c_type_ == Element::bf16 && blocks_.k_blocks > 1),
        few_(kernel.multiply_few && m_ <= kFewRows) {}

  void run() {
    if (batch_ == 0) return;
    const int64_t matrix_bytes = panels_ * blocks_.k_blocks * blocks_.panel_bytes;
    if (args_.b_is_weight) {
      const auto packed = PackedForms::of(args_.b.storage())
                              .get(args_.b.storage(), key(), size_t(batch_ * matrix_bytes),
                                   [&](std::byte* to) { pack_b(to, 0, batch_, 0, panels_); });
      return multiply(packed->data(), 0, batch_, 0, panels_);
    }
    // A B that is used once is packed in parts of bounded size.
    constexpr int64_t kLimit = 64 << 20;
    const int64_t batch_step = std::clamp<int64_t>(kLimit / std::max<int64_t>(1, matrix_bytes), 1, batch_);
    const int64_t panel_step =
        std::clamp<int64_t>(kLimit / std::max<int64_t>(1, blocks_.k_blocks * blocks_.panel_bytes), 1, panels_);
    const auto packed = Storage::allocate(size_t(batch_step * panel_step * blocks_.k_blocks * blocks_.panel_bytes));
    for (int64_t i = 0; i < batch_; i += batch_step)
      for (int64_t p = 0; p < panels_; p += panel_step) {
        const int64_t i_end = std::min(batch_, i + batch_step), p_end = std::min(panels_, p + panel_step);
        pack_b(packed->data(), i, i_end, p, p_end);
        multiply(packed->data(), i, i_end, p, p_end);
      }
  }

 private:
  PackKey key() const {
    PackKey key{};
    size_t at = 0;
    for (int axis = 0; axis < args_.b.rank(); ++axis) {
      key[at++] = args_.b.size(axis);
      key[at++] = args_.b.stride(axis);
    }
    key[12] = args_.b.offset();
    key[13] = int64_t(args_.b.dtype());
    key[14] = int64_t(kernel_.b_form);
    key[15] = kernel_.nr;
    key[16] = blocks_.units;
    key[17] = kernel_.compensated;
    key[18] = kernel_.tiles;
    return key;
  }

  int64_t depth_of(int64_t k_block) const { return std::min(blocks_.k_block, k_ - k_block * blocks_.k_block); }
  int64_t units_of(int64_t k_block) const {
    return round_up(divide_up(depth_of(k_block), blocks_.group), kernel_.unit_multiple);
  }

  /// Where panels of one block of k go: panel after panel, `stride` bytes apart, each of `lines` lines. For tiles a panel
  /// is a row of pairs along k: the tile of its first 16 lines, then that of the others.
  struct Panels {
    std::byte* to;
    int64_t stride, lines;
    Packed form;
    bool lines_first;  ///< tiles of A: packed[unit / 16][line][unit % 16]
    bool compensated;
  };

  /// Packs `lines` lines of an operand (from `source` on, the first element of the block) in panels of one block of k.
  void pack_lines(const Operand& operand, const std::byte* source, int64_t lines, int64_t k,
                  const Panels& panels) const {
    // Where neighbours in memory are lines, all panels take a slab of k before the next one, so that memory is read in
    // its order. Compensation sums whole lines.
    const int64_t units = units_of(k);
    const bool across = operand.depth_stride != 1 && !panels.compensated;
    const int64_t slab = across || kernel_.tiles ? 16 : std::max<int64_t>(1, units);
    const int64_t width = kernel_.tiles ? 16 : panels.lines;
    // Also for no units at all: the compensation is written then too.
    for (int64_t unit = 0; unit == 0 || unit < units; unit += slab) {
      const int64_t skip = unit * blocks_.group;
      for (int64_t line = 0; line < lines; line += width) {
        std::byte* to = panels.to + line / panels.lines * panels.stride + line % panels.lines * 64;
        PackJob job{};
        job.source = source + operand.element_bytes * (line * operand.line_stride + skip * operand.depth_stride);
        job.type = operand.type;
        job.line_stride = operand.line_stride;
        job.depth_stride = operand.depth_stride;
        job.lines = std::min(width, lines - line);
        job.depth = std::clamp<int64_t>(depth_of(k) - skip, 0, slab * blocks_.group);
        job.packed = to + 4 * unit * panels.lines;
        job.form = panels.form;
        job.tiles = panels.lines_first;
        job.width = width;
        job.padded_units = std::min(slab, units - unit);
        if (panels.compensated) job.compensation = reinterpret_cast<int32_t*>(to + 4 * width * units);
        kernel_.pack(job);
      }
    }
  }

  /// packed[matrix][panel][k block], of the matrices and panels in the given ranges.
  void pack_b(std::byte* packed, int64_t i_begin, int64_t i_end, int64_t p_begin, int64_t p_end) const {
    constexpr int64_t kPanelsTogether = 8;
    const int64_t panels = p_end - p_begin, groups = divide_up(panels, kPanelsTogether);
    parallel_for((i_end - i_begin) * groups * blocks_.k_blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t k = t % blocks_.k_blocks, first = t / blocks_.k_blocks % groups * kPanelsTogether;
        const int64_t i = t / blocks_.k_blocks / groups;
        const int64_t column = (p_begin + first) * kernel_.nr;
        const int64_t last = std::min(first + kPanelsTogether, panels);
        const int64_t at =
            batch_offset(args_.b, i_begin + i) + column * b_.line_stride + k * blocks_.k_block * b_.depth_stride;
        pack_lines(b_, b_.data + b_.element_bytes * at, std::min((last - first) * kernel_.nr, n_ - column), k,
                   {packed + ((i * panels + first) * blocks_.k_blocks + k) * blocks_.panel_bytes,
                    blocks_.k_blocks * blocks_.panel_bytes, kernel_.nr, kernel_.b_form, false, kernel_.compensated});
      }
    });
  }

  /// The tasks of C over the packed part of B.
  void multiply(const std::byte* packed_b, int64_t i_begin, int64_t i_end, int64_t p_begin, int64_t p_end) const {
    const int64_t m_parts = divide_up(m_, blocks_.m_block);
    const int64_t panels = p_end - p_begin, panels_a_task = blocks_.n_block / kernel_.nr;
    const int64_t n_parts = divide_up(panels, panels_a_task);
    parallel_for((i_end - i_begin) * n_parts * m_parts, 1, [&](int64_t begin, int64_t end) {
      const Session session(kernel_);
      for (int64_t t = begin; t < end; ++t) {
        Task task{};
        task.matrix = i_begin + t / m_parts / n_parts;
        task.row = t % m_parts * blocks_.m_block;
        task.rows = std::min(blocks_.m_block, m_ - task.row);
        const int64_t first = t / m_parts % n_parts * panels_a_task;
        task.panels = std::min(panels_a_task, panels - first);
        task.column = (p_begin + first) * kernel_.nr;
        task.packed_b = packed_b + ((task.matrix - i_begin) * panels + first) * blocks_.k_blocks * blocks_.panel_bytes;
        task.c = first_element(c_, args_.c, task);
        task.residual = first_element(residual_, args_.residual, task);
        task.pre = first_element(pre_, args_.pre_activation, task);
        run_task(task);
      }
    });
  }

  struct Task {
    int64_t matrix, row, rows, column, panels;
    const std::byte* packed_b;
    std::byte* packed_a;
    std::byte *tile, *other_tile;   ///< mr x nr sums, used in turn
    std::byte* sums;                ///< the whole block of C in f32, when C itself cannot hold partial sums
    std::byte *c, *residual, *pre;  ///< its first elements
  };
  int64_t tile_size() const { return round_up(4 * kernel_.mr * kernel_.nr, 64); }
  int64_t panel_a_bytes() const { return 4 * kernel_.mr * blocks_.units; }
  int64_t sums_stride(const Task& task) const { return task.panels * kernel_.nr; }

  void run_task(Task& task) const {
    const int64_t a_panels = divide_up(task.rows, kernel_.mr);
    const int64_t tile_bytes = 2 * tile_size();
    const int64_t a_bytes = round_up(a_panels * panel_a_bytes(), 64);
    const int64_t sums_bytes = keeps_sums_ ? 4 * a_panels * kernel_.mr * sums_stride(task) : 0;
    task.tile = thread_scratch(size_t(tile_bytes + a_bytes + sums_bytes));
    task.other_tile = task.tile + tile_size();
    task.packed_a = task.tile + tile_bytes;
    task.sums = task.packed_a + a_bytes;
    // The epilogue of a tile waits until the next tile is multiplied: then its sums have reached the cache, and the
    // processor works on both at once.
    std::optional<FinishJob> waiting;
    for (int64_t k = 0; k < blocks_.k_blocks; ++k) {
      pack_a(task, k);
      for (int64_t p = 0; p < task.panels; ++p)
        for (int64_t i = 0; i < a_panels; ++i) {
          const std::optional<FinishJob> next = run_tile(task, k, i, p);
          if (waiting) kernel_.finish(*waiting);
          waiting = next;
          if (next) std::swap(task.tile, task.other_tile);
        }
    }
    if (waiting) kernel_.finish(*waiting);
  }

  const std::byte* a_at(int64_t matrix, int64_t row, int64_t k) const {
    return a_.data + a_.element_bytes * (batch_offset(args_.a, matrix) + row * a_.line_stride + k * a_.depth_stride);
  }

  void pack_a(const Task& task, int64_t k) const {
    pack_lines(a_, a_at(task.matrix, task.row, k * blocks_.k_block), task.rows, k,
               {task.packed_a, panel_a_bytes(), kernel_.mr, kernel_.a_form, kernel_.tiles, false});
  }

  /// Multiplies one tile, and says what is left to do with its sums.
  std::optional<FinishJob> run_tile(const Task& task, int64_t k, int64_t i, int64_t p) const {
    const bool last = k + 1 == blocks_.k_blocks;
    const int64_t row = i * kernel_.mr, column = p * kernel_.nr;
    const int64_t rows = std::min(kernel_.mr, task.rows - row);
    const int64_t columns = std::min(kernel_.nr, n_ - task.column - column);
    MultiplyJob job{};
    job.b = task.packed_b + (p * blocks_.k_blocks + k) * blocks_.panel_bytes;
    job.units = units_of(k);
    job.rows = rows;
    job.a = task.packed_a + i * panel_a_bytes();
    const bool more = k > 0 || args_.accumulate;
    const bool whole = columns == kernel_.nr && (rows == kernel_.mr || !kernel_.tiles);
    if (keeps_sums_) {
      job.c = task.sums + 4 * (row * sums_stride(task) + column);
      job.c_stride = sums_stride(task);
      job.accumulate = k > 0;
      call(job);
      if (!last) return {};
      return finish(task, job, row, column, columns, args_.accumulate, true);
    }
    if (c_type_ != Element::bf16 && whole && (plain_ || !last)) {
      job.c = at(c_, task.c, row, column);
      job.c_stride = c_.row_stride;
      job.accumulate = more;
      call(job);
      return {};
    }
    job.c = task.tile;
    job.c_stride = kernel_.nr;
    call(job);
    return finish(task, job, row, column, columns, more, last);
  }

  void call(const MultiplyJob& job) const { few_ ? kernel_.multiply_few(job) : kernel_.multiply(job); }

  static std::byte* first_element(const Result& r, const Tensor& t, const Task& task) {
    if (!t) return nullptr;
    return r.data + r.element_bytes * (batch_offset(t, task.matrix) + task.row * r.row_stride + task.column);
  }
  static std::byte* at(const Result& r, std::byte* first, int64_t row, int64_t column) {
    return first + r.element_bytes * (row * r.row_stride + column);
  }

  /// From sums to C; the epilogue comes with the last block of k.
  FinishJob finish(const Task& task, const MultiplyJob& product, int64_t row, int64_t column, int64_t columns,
                   bool add_c, bool last) const {
    FinishJob job{};
    job.sum = product.c;
    job.sum_stride = product.c_stride;
    job.rows = product.rows;
    job.columns = columns;
    job.c = at(c_, task.c, row, column);
    job.c_stride = c_.row_stride;
    job.c_type = c_type_;
    job.add_c = add_c;
    if (last) {
      if (bias_) job.bias = bias_ + task.column + column;
      if (task.residual) {
        job.residual = at(residual_, task.residual, row, column);
        job.residual_stride = residual_.row_stride;
      }
      if (task.pre) {
        job.pre = at(pre_, task.pre, row, column);
        job.pre_stride = pre_.row_stride;
      }
      job.curve = Curve(int(args_.activation));
    }
    return job;
  }

  const GemmKernel& kernel_;
  const Gemm& args_;
  const int64_t m_, n_, k_, batch_;
  const Operand a_, b_;
  const Result c_, residual_, pre_;
  const float* const bias_;
  const Element c_type_;
  const bool plain_;  ///< no epilogue
  const Blocks blocks_;
  const int64_t panels_;
  const bool keeps_sums_, few_;
};

bool one_unit_stride(const Tensor& t) {
  return t.stride(-1) == 1 || t.stride(-2) == 1 || t.size(-1) == 1 || t.size(-2) == 1;
}
bool rows_of_unit_stride(const Tensor& t) { return !t || t.stride(-1) == 1 || t.size(-1) == 1; }

}  // namespace

bool driver_takes(const Gemm& args) {
  const bool plain = !args.bias && !args.residual && !args.pre_activation && args.activation == Activation::none;
  return one_unit_stride(args.a) && one_unit_stride(args.b) && rows_of_unit_stride(args.c) &&
         rows_of_unit_stride(args.residual) && rows_of_unit_stride(args.pre_activation) && !(args.accumulate && !plain);
}

void run_gemm(const GemmKernel& kernel, const Gemm& args) {
  Product(kernel, args).run();
  args.c.storage().touch();
}

}  // namespace rapt::kernels::cpu
