# The library is built for the plain baseline; these files alone are compiled for more, and run only after the
# processor was asked (cpu/features.hpp). A file's suffix names its instruction set.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx2 -mavx2 -mfma -mf16c)
  # gcc 12 takes the undefined vectors inside its own AVX-512 intrinsics for mistakes of ours (its bug 105593).
  set(quiet $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  set(avx512 -march=skylake-avx512 -mprefer-vector-width=512 ${quiet})
  set(avx512vnni ${avx512} -mavx512vnni)
  set(avx512bf16 ${avx512} -mavx512vnni -mavx512bf16)
  set(amx ${avx512bf16} -mamx-tile -mamx-bf16 -mamx-int8)
  foreach(set avx2 avx512 avx512vnni avx512bf16 amx)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/cpu/*_${set}.cpp)
    if(files)
      set_source_files_properties(${files} TARGET_DIRECTORY rapt_kernels PROPERTIES COMPILE_OPTIONS "${${set}}")
    endif()
  endforeach()
endif()
target_link_libraries(rapt_kernels PRIVATE hwy::hwy)
