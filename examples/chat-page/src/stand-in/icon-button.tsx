import { Icon } from "./icons";

interface Props {
  icon: string;
  label: string;
  onClick: () => void;
  isPressed?: boolean;
  isDisabled?: boolean;
}

export function IconButton({ icon, label, onClick, isPressed, isDisabled = false }: Props) {
  return (
    <button
      type="button"
      className="icon-button"
      aria-label={label}
      title={label}
      aria-pressed={isPressed}
      disabled={isDisabled}
      onClick={onClick}
    >
      <Icon name={icon} size={17} />
    </button>
  );
}
