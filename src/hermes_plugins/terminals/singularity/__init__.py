"""The terminal backend `singularity`: commands run in an Apptainer or Singularity instance."""
