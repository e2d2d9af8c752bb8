#pragma once
#include <stdexcept>
#include <string>

namespace rapt {

/// Everything that Rapt throws is one of these. The text begins with the operation in brackets or with file:line,
/// quotes the numbers, and says the way out.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ShapeError : Error {  ///< sizes do not fit together
  using Error::Error;
};
struct DTypeError : Error {  ///< an element type that the operation does not take
  using Error::Error;
};
struct IndexError : Error {  ///< a token id, position or axis out of range
  using Error::Error;
};
struct KernelError : Error {  ///< no implementation for these arguments on this machine
  using Error::Error;
};
struct GradError : Error {  ///< the tape is used in a way it cannot serve
  using Error::Error;
};
struct NonFiniteError : Error {  ///< NaN or infinity, with the name of the first bad tensor
  using Error::Error;
};
struct FileError : Error {  ///< a file that cannot be read, written or understood
  using Error::Error;
};
struct ConfigError : Error {  ///< a setting that is unknown, missing or contradicts another
  using Error::Error;
};

}  // namespace rapt
