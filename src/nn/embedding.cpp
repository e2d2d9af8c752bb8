#include <base/fail.hpp>
#include <rapt/nn/embedding.hpp>

namespace rapt::nn {

void require_tokens(const Tensor& tokens) {
  require<DTypeError>(tokens.defined(), "[embedding] tokens are undefined");
  require<DTypeError>(tokens.dtype() == DType::i32, "[embedding] tokens are {}; i32 is needed",
                      to_string(tokens.dtype()));
  require<ShapeError>(tokens.rank() == 2 && tokens.numel() > 0,
                      "[embedding] tokens {}: [B, T] with at least one sequence of at least one token is needed",
                      to_string(tokens.shape()));
}

}  // namespace rapt::nn
