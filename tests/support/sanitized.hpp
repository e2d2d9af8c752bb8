#pragma once

namespace rapt::testing {

/// Is this a build with sanitizers? It is several times slower, so tests whose point is size take a smaller one there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace rapt::testing
