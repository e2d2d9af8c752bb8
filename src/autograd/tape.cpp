#include <base/fail.hpp>
#include <rapt/autograd/tape.hpp>
#include <tensor/visit.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace rapt {
namespace {

thread_local bool recording = true;
thread_local bool detecting = false;
std::atomic<uint64_t> next_order{1};
std::atomic<uint64_t> next_visit{1};

int64_t first_non_finite(const Tensor& t) {
  if (!is_floating(t.dtype())) return -1;
  int64_t index = 0, found = -1;
  visit_dtype(t.dtype(), [&]<class T>(TypeTag<T>) {
    const T* data = t.data<T>();
    for_each_offset(t.shape(), {t.strides()}, [&](const std::array<int64_t, 1>& at) {
      if (found < 0 && !std::isfinite(to_double(data[at[0]]))) found = index;
      ++index;
    });
  });
  return found;
}

void add_to(const Tensor& sum, const Tensor& x) {
  const Tensor term = x.to(sum.dtype());
  visit_dtype(sum.dtype(), [&]<class T>(TypeTag<T>) {
    T* to = sum.data<T>();
    const T* from = term.data<T>();
    for_each_offset(sum.shape(), {sum.strides(), term.strides()}, [&](const std::array<int64_t, 2>& at) {
      to[at[0]] = convert<T>(to_double(to[at[0]]) + to_double(from[at[1]]));
    });
  });
}

/// "linear(encoder.0.ffn.w1.weight)": the operation and those of its inputs that have a name.
template <class Inputs, class NameOf>
std::string label(const char* op, const Inputs& inputs, NameOf name_of) {
  std::string names;
  for (const auto& input : inputs) {
    const std::string name = name_of(input);
    if (!name.empty()) names += (names.empty() ? "" : ", ") + name;
  }
  return fmt::format("{}({})", op, names);
}

void check_outputs(const Backward& backward, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  for (const Tensor& output : outputs) {
    const int64_t at = first_non_finite(output);
    if (at < 0) continue;
    fail<NonFiniteError>("[{}] the result {} holds {} at element {}",
                         label(backward.name(), inputs, [](const Tensor& t) { return t ? t.name() : ""; }),
                         to_string(output.shape()), output.contiguous().view({-1}).at({at}), at);
  }
}

void check_gradients(const Node& node, const char* op) {
  for (const auto& edge : node.inputs) {
    if (!edge.slot || !edge.slot->written()) continue;
    // Only what this operation wrote: the rest of the buffer may still wait for its first writer.
    const int64_t at = first_non_finite(edge.slot->buffer.seen_as(edge.view, edge.slot->base_offset));
    if (at < 0) continue;
    fail<NonFiniteError>("[{} backward] the gradient of {} holds NaN or infinity at element {}",
                         label(op, node.inputs, [](const Node::Edge& e) { return e.name; }),
                         edge.name.empty() ? "an input" : "'" + edge.name + "'", at);
  }
}

/// Every node that can reach `root`, latest first. An explicit stack: an unrolled RNN is thousands of nodes deep.
std::vector<std::shared_ptr<Node>> collect(const std::shared_ptr<Node>& root) {
  const uint64_t visit = next_visit++;
  std::vector<std::shared_ptr<Node>> nodes{root};
  root->visit = visit;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::shared_ptr<Node> node = nodes[i];
    for (const auto& edge : node->inputs)
      if (edge.producer && edge.slot && edge.producer->visit != visit) {
        edge.producer->visit = visit;
        nodes.push_back(edge.producer);
      }
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a->order > b->order; });
  return nodes;
}

/// Runs one node if a gradient reached it, and frees what it held either way.
void run(Node& node) {
  const bool reached =
      std::any_of(node.outputs.begin(), node.outputs.end(), [](const auto& s) { return s->written(); });
  if (reached) {
    require<GradError>(node.backward != nullptr,
                       "[backward] this part of the tape was already run and freed; compute the loss again");
    for (const auto& slot : node.outputs)
      if (slot->written()) slot->complete();
    Grads grads(node);
    node.backward->run(grads);
    if (detecting) check_gradients(node, node.backward->name());
  }
  node.backward.reset();
  node.inputs.clear();
  for (const auto& slot : node.outputs) slot->clear();
}

}  // namespace

Node::~Node() {
  // Producers are let go one after the other: a chain that lets go recursively overflows the stack.
  std::vector<std::shared_ptr<Node>> waiting;
  const auto take_producers = [&](Node& node) {
    for (Edge& edge : node.inputs)
      if (edge.producer) waiting.push_back(std::move(edge.producer));
  };
  take_producers(*this);
  while (!waiting.empty()) {
    const std::shared_ptr<Node> node = std::move(waiting.back());
    waiting.pop_back();
    if (node.use_count() == 1) take_producers(*node);
  }
}

Tensor Grads::dy(int output) const {
  const GradSlot& slot = *node_.outputs[size_t(output)];
  return slot.written() ? slot.buffer : Tensor{};
}

GradTarget Grads::into(int input) const {
  const Node::Edge& edge = node_.inputs[size_t(input)];
  // attention(x, x, x): a kernel that makes several gradients at once cannot have one written over by the next, so all
  // of them add to zeros.
  const auto overlaps = [&](const Node::Edge& other) {
    return &other != &edge && other.slot == edge.slot && !disjoint(other.region, edge.region);
  };
  if (!edge.slot->written() && std::any_of(node_.inputs.begin(), node_.inputs.end(), overlaps)) edge.slot->complete();
  return edge.slot->claim(edge.view, edge.region);
}

bool Grads::pass(int input, const Tensor& grad) const {
  const Node::Edge& edge = node_.inputs[size_t(input)];
  // A buffer has one owner: it may be handed on once, and only to a whole tensor that lies in memory as it does.
  if (passed_ || !edge.region.whole() || !(edge.view.shape == edge.slot->shape) || !edge.view.is_contiguous())
    return false;
  // Another input that is a view of the same tensor (x + x^T) would add the buffer to itself.
  const auto same_slot = [&](const Node::Edge& other) { return other.slot == edge.slot; };
  if (std::count_if(node_.inputs.begin(), node_.inputs.end(), same_slot) > 1) return false;
  passed_ = edge.slot->adopt(grad);
  return passed_;
}

bool grad_enabled() { return recording; }

bool wants_grad(std::initializer_list<const Tensor*> inputs) {
  return recording && std::any_of(inputs.begin(), inputs.end(), [](const Tensor* t) { return t->requires_grad(); });
}

void record(std::unique_ptr<Backward> backward, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  if (detecting) check_outputs(*backward, inputs, outputs);
  if (!recording) return;
  if (std::none_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.requires_grad(); })) return;
  auto node = std::make_shared<Node>();
  node->order = next_order++;
  node->backward = std::move(backward);
  for (const Tensor& input : inputs) {
    Node::Edge edge;
    if (input.requires_grad()) {
      edge.producer = input.hook().producer;
      edge.slot = input.hook().slot;
      edge.view = input.geometry();
      edge.region = input.hook().region;
    }
    if (input) edge.name = input.name();
    node->inputs.push_back(std::move(edge));
  }
  for (Tensor& output : outputs) {
    auto slot = std::make_shared<GradSlot>();
    slot->shape = output.shape();
    slot->dtype = output.dtype();
    slot->device = output.device();
    slot->base_offset = output.offset();
    node->outputs.push_back(slot);
    output.hook() = GradHook{node, slot, {}};
  }
}

NoGrad::NoGrad() : before_(recording) { recording = false; }
NoGrad::~NoGrad() { recording = before_; }
DetectNonFinite::DetectNonFinite() : before_(detecting) { detecting = true; }
DetectNonFinite::~DetectNonFinite() { detecting = before_; }

Tensor& require_grad(Tensor& t) {
  require<DTypeError>(is_floating(t.dtype()) && t.dtype() != DType::f16,
                      "[require_grad] {} has no gradient: f64, f32 or bf16 is needed", to_string(t.dtype()));
  require<ShapeError>(t.is_contiguous(), "[require_grad] a leaf must be contiguous, {} with strides {} is not",
                      to_string(t.shape()), to_string(t.strides()));
  auto slot = std::make_shared<GradSlot>();
  slot->shape = t.shape();
  slot->dtype = t.dtype();
  slot->device = t.device();
  slot->base_offset = t.offset();
  t.hook() = GradHook{nullptr, slot, {}};
  return t;
}

Tensor grad(const Tensor& t) {
  require<GradError>(t.requires_grad() && !t.hook().producer,
                     "[grad] '{}' was not marked with require_grad: only leaves keep their gradient", t.name());
  GradSlot& slot = *t.hook().slot;
  slot.complete();
  return slot.buffer.seen_as(t.geometry(), slot.base_offset);
}

void zero_grad(const Tensor& t) {
  if (t.requires_grad()) t.hook().slot->clear();
}

Tensor stop_gradient(const Tensor& t) {
  Tensor cut = t.view(t.shape());
  cut.hook() = {};
  return cut;
}

void backward(const Tensor& loss) {
  require<ShapeError>(loss.numel() == 1, "[backward] starts from one number, not from shape {}",
                      to_string(loss.shape()));
  backward(loss, Tensor::full(loss.shape(), 1, loss.dtype()));
}

void backward(const Tensor& y, const Tensor& dy) {
  require<GradError>(y.requires_grad(), "[backward] nothing that '{}' was computed from wants a gradient", y.name());
  require<ShapeError>(y.shape() == dy.shape(), "[backward] y {} and dy {} differ", to_string(y.shape()),
                      to_string(dy.shape()));
  NoGrad no_grad;
  const GradHook& hook = y.hook();
  if (hook.producer) {
    require<GradError>(hook.producer->backward != nullptr,
                       "[backward] this part of the tape was already run and freed; compute the loss again");
    require<GradError>(!hook.slot->written(), "[backward] a backward pass through '{}' is already running", y.name());
  }
  const GradTarget seed = hook.slot->claim(y.geometry(), hook.region);
  if (seed.accumulate) {
    add_to(seed.grad, dy);
  } else {
    seed.grad.copy_from(dy);
  }
  if (!hook.producer) return;
  auto nodes = collect(hook.producer);
  for (auto& node : nodes) {
    run(*node);
    node.reset();
  }
}

namespace {

struct CheckpointBackward : Backward {
  std::function<Tensor(std::span<const Tensor>)> f;
  std::vector<Tensor> inputs;  // with the slots of the originals, and no producer: leaves of the inner tape

  const char* name() const override { return "checkpoint"; }
  void run(Grads& g) override {
    const Tensor dy = g.dy();
    Tensor y;
    {
      recording = true;  // backward() runs without recording; here it starts a tape of its own
      struct Off {
        ~Off() { recording = false; }
      } off;
      y = f(inputs);
    }
    if (y.requires_grad()) rapt::backward(y, dy);  // else f cut the gradient
  }
};

}  // namespace

Tensor checkpoint(std::function<Tensor(std::span<const Tensor>)> f, std::vector<Tensor> inputs) {
  // With no input on the tape there would be no edge to come back by: then f is recorded as it is.
  const bool on_tape = std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.requires_grad(); });
  if (!recording || !on_tape) return f(inputs);
  Tensor y;
  {
    NoGrad no_grad;
    // A handle of its own with plain strides: f may return one of its inputs, or a view.
    y = stop_gradient(f(inputs).contiguous());
  }
  auto memory = std::make_unique<CheckpointBackward>();
  memory->f = std::move(f);
  for (const Tensor& input : inputs) {
    Tensor leaf = input.view(input.shape());
    leaf.hook().producer = nullptr;
    memory->inputs.push_back(leaf);
  }
  record(std::move(memory), inputs, std::span(&y, 1));
  return y;
}

}  // namespace rapt
